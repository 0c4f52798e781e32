"""The prefilter of a scan: the agent's, with cached shapes of a piece and patterns tried on shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuwatch.agent.logs.lines.json_lines import has_escapes, unescaped
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.runs.prefilter.seen_shapes import SeenShapes
from gpuwatch.runs.prefilter.shape_filter import ShapeFilter

if TYPE_CHECKING:
    from gpuwatch.agent.logs.matching.ruleset import Phrase, RuleSet

_OTHER_ESCAPE = re.compile(rb"\\[^nrt]")
"""Matches a JSON escape other than line ends and tabs: the shape of its line differs from its text's."""


class PiecePrefilter(Prefilter):
    """A prefilter that caches the shapes (lines without digits) of the newest piece for several stages."""

    def __init__(self, ruleset: RuleSet) -> None:
        super().__init__(ruleset)
        self._given = self._unbroken = b""
        """The newest piece as it was given, and with a line feed for each carriage return."""
        self._piece = b""
        self._shapes: list[bytes] = []
        self._distinct: frozenset[bytes] | None = None
        self._filter = ShapeFilter(ruleset)
        self._escaped: set[bytes] = set()
        """Shapes of the piece's lines with JSON escapes, after these are replaced by their characters."""

    def prepare(self) -> None:
        """Do the slow preparations for the next piece, here none; call this outside of any time limit."""

    def load_kept(self) -> None:
        """Load what is kept in the cache folder, here nothing; called if much text follows, before a fork."""

    def finder_of(self, texts: Sequence[bytes]) -> Callable[[bytes], bool]:
        """Return a function that returns True if one of the texts occurs in the lines of a piece.

        Each text contains a word, but no digit or control character.
        """
        seen = SeenShapes(texts)
        return lambda data: seen.hold(data, self)

    def unbroken(self, data: bytes) -> bytes:
        """Return the data with a line feed for each carriage return."""
        if data is not self._given:
            self._given, self._unbroken = data, super().unbroken(data)
        return self._unbroken

    def shapes(self, data: bytes) -> list[bytes]:
        """Return the shape of each line."""
        data = self.unbroken(data)
        if data is not self._piece:
            self._piece, self._shapes = data, super().shapes(data)
            self._distinct = None
        return self._shapes

    def distinct(self, data: bytes) -> frozenset[bytes]:
        """Return the different shapes of the lines."""
        shapes = self.shapes(data)
        if self._distinct is None:
            self._distinct = frozenset(shapes)
        return self._distinct

    def hits(
        self,
        data: bytes,
        newest: Any = None,  # noqa: ANN401 - the agent's type
        known: set[int] | None = None,
    ) -> list[tuple[int, Phrase]]:
        """Return (offset, phrase) for each phrase in the data whose rules may match its line."""
        self._escaped.clear()
        if has_escapes(data):
            lines = [line for line in data.replace(b"\r", b"\n").split(b"\n") if _OTHER_ESCAPE.search(line)]
            self._escaped.update(super().shapes(unescaped(b"\n".join(lines))))
        return super().hits(data, newest, known)

    def _phrases_in(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]]:
        return self._filter.kept(super()._phrases_in(shapes), self._escaped)
