"""A prefilter that uses Hyperscan: the same result as the agent's word sets, several times faster."""

from __future__ import annotations

import importlib.util
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from gpuwatch.agent.logs.lines.json_lines import has_escapes, unescaped
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.runs.scan.seen_shapes import PieceSieve

if TYPE_CHECKING:
    from gpuwatch.agent.logs.matching.ruleset import Phrase


def installed() -> bool:
    """Return True if the extra `hyperscan` is installed."""
    return importlib.util.find_spec("hyperscan") is not None


class HyperSieve:
    """Finds the phrases of a rule set; replaces `agent.logs.matching.prefilter.Sieve`."""

    def __init__(self, ruleset: RuleSet) -> None:
        import hyperscan  # noqa: PLC0415  an extra: only who asks for it needs it

        self._phrases = [phrase for phrase in ruleset.phrases if phrase.leads_to_findings]
        self._steps = PieceSieve(ruleset, [phrase for phrase in ruleset.phrases if phrase.dialects])
        fold, exact = hyperscan.HS_FLAG_CASELESS, 0
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[phrase.text for phrase in self._phrases],
            ids=list(range(len(self._phrases))),
            elements=len(self._phrases),
            flags=[fold if phrase.fold else exact for phrase in self._phrases],
            literal=True,
        )
        self._scratch = hyperscan.Scratch(self._database)
        self._database.scratch = self._scratch

    def no_progress(self, shape: bytes) -> None:
        """Record that lines of this shape contain no progress."""
        self._steps.no_progress(shape)

    def distinct(self, data: bytes) -> AbstractSet[bytes]:
        """Return the different shapes of the lines."""
        return self._steps.distinct(data)

    def hits(
        self,
        data: bytes,
        newest: Any = None,  # noqa: ANN401 - the agent's type
        known: set[int] | None = None,  # noqa: ARG002 - all is searched
    ) -> list[tuple[int, Phrase]]:
        """Return (offset, phrase) in order; one hit per line and phrase. `newest`: as in `Sieve.hits`."""
        if newest is not None:
            self._steps.hits(data, newest)
        ends: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends.append((end, number))

        if has_escapes(data):
            data = unescaped(data)
        self._database.scan(data, match_event_handler=on_match)
        found = [(end - len(self._phrases[number].text), number) for end, number in ends]
        return [(at, self._phrases[number]) for at, number in once_a_line(data, sorted(found))]


def once_a_line(data: bytes, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the hits without repeats of a phrase within a line."""
    kept: list[tuple[int, int]] = []
    line_end: dict[int, int] = {}
    for at, number in found:
        if at >= line_end.get(number, 0):
            kept.append((at, number))
            end = data.find(b"\n", at)
            line_end[number] = len(data) if end < 0 else end
    return kept
