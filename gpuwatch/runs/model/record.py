"""Records the matches in each part of a file; `gathered` merges them as if the file had been read at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

from gpuwatch.agent.logs.matching.ruleset import CompiledRule
from gpuwatch.agent.logs.scanning.dedup import Gatherer, Open, signature
from gpuwatch.runs.model.clues import is_clue

MAX_MATCHES_PER_SPEAKER = 200
"""Most matches of one rule and writer that are recorded with their lines; further ones are only counted."""
MAX_MATCHES_PER_RULE = 20_000
"""Most matches of one rule in a part that are recorded; beyond that, only the first one per writer."""
MAX_CLUES = 50_000

Row: TypeAlias = dict[str, Any]
"""A finding with the keys of `wire.Finding`."""
StepsBetween: TypeAlias = Callable[[Row, int, int | None], int]
"""A function that returns the number of distinct steps that a finding's writer logged between two offsets.

Second offset None: up to the file's end.
"""


@dataclass
class Match:
    """A match of a rule, and how many further similar matches were counted with it."""

    rule: str
    row: Row
    message: str
    more: int = 0
    last: Row | None = None
    """The newest of the matches that were only counted."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The row of the match, and that of the newest one counted with it, if any."""
        return (self.row,) if self.last is None else (self.row, self.last)

    def count(self, finding: Row) -> None:
        """Count a further match."""
        self.more += 1
        self.last = finding
        self.row["last_at"] = max(self.row["last_at"], finding["at"])
        self.row["last_offset"] = finding["offset"]


@dataclass
class RecoveryLine:
    """A line that ends the condition that a rule found."""

    rule: str
    fields: dict[str, Any]
    at: float


class Recorder:
    """Records matches while `own` is set, else ignores them; it never gathers them into findings."""

    def __init__(self) -> None:
        self.own = True
        self.events: list[Match | RecoveryLine] = []
        """The recorded events, in file order."""
        self.clues: list[Row] = []
        self.left_out = 0
        self._of_rule: Counter[tuple[object, ...]] = Counter()
        self._last: dict[tuple[object, ...], Match] = {}
        """(writer, wording) -> its newest match."""
        self._newest: dict[tuple[object, ...], Match] = {}
        """(writer, rule) -> its newest match."""
        self._clues_seen: set[tuple[object, ...]] = set()
        self._renewed: dict[tuple[object, ...], int] = {}
        """(writer, rule), for rules of which only the newest match counts -> its index in `clues`."""

    def add(self, rule: CompiledRule, finding: Row, message: str) -> Open | None:
        """Record a match and return it as open; None if it is only counted.

        While `own` is False, a match is returned without being recorded. Of a clue None also means that it is
        known already, or one of too many (`MAX_CLUES`).
        """
        finding["id"], finding["count"], finding["last_at"] = 0, 1, finding["at"]
        if not self.own:
            return Open(finding, None)  # the block must be read to its end, but belongs to another part
        if is_clue(finding):
            return self._clue(rule, finding)
        key = (rule.id, *signature(finding, message))
        self._of_rule[key[:4]] += 1
        self._of_rule[key[:1]] += 1
        most = MAX_MATCHES_PER_SPEAKER if self._of_rule[key[:1]] <= MAX_MATCHES_PER_RULE else 1
        if self._of_rule[key[:4]] > most:
            self.left_out += key not in self._last
            self._last.get(key, self._newest[key[:4]]).count(finding)
            return None
        match = self._last[key] = self._newest[key[:4]] = Match(rule.id, finding, message)
        self.events.append(match)
        return Open(finding, None)

    def close(self, rule: CompiledRule, fields: dict[str, Any], at: float) -> list[Row]:
        """Record a recovery; return an empty list."""
        if self.own:
            self.events.append(RecoveryLine(rule.id, fields, at))
        return []

    def grown(self, _now: float, _most: int = 0) -> list[Row]:
        """Return an empty list: recorded matches do not grow."""
        return []

    def _clue(self, rule: CompiledRule, finding: Row) -> Open | None:
        key = (finding["rule"], finding.get("host"), finding.get("pid"), tuple(finding["fields"].items()))
        if rule.newest:
            return self._renew((*key, finding.get("rank")), finding)
        if key in self._clues_seen or len(self.clues) >= MAX_CLUES:
            return None
        self._clues_seen.add(key)
        self.clues.append(finding)
        return Open(finding, None)

    def _renew(self, key: tuple[object, ...], finding: Row) -> Open:
        """Replace the recorded match of a rule and writer by this one, if it is newer; return the finding."""
        before = self._renewed.get(key)
        if before is None:
            self._renewed[key] = len(self.clues)
            self.clues.append(finding)
        elif finding["offset"] >= self.clues[before]["offset"]:
            self.clues[before] = finding
        return Open(finding, None)


def gathered(
    events: Iterable[Match | RecoveryLine], rules: dict[str, CompiledRule], steps_between: StepsBetween
) -> list[Row]:
    """Return the findings of a whole file: similar ones counted, floods merged, recovered ones closed.

    The last match of a rule and writer is a separate finding if steps were logged right above it and at most
    one below.
    """
    ids = count(1)
    gatherer = Gatherer(ids.__next__)
    rows: list[Row] = []
    newest: dict[tuple[object, ...], Row] = {}
    lasts: dict[tuple[object, ...], Last] = {}
    for event in events:
        rule = rules[event.rule]
        if isinstance(event, RecoveryLine):
            gatherer.close(rule, event.fields, event.at)
            lasts = {speaker: last for speaker, last in lasts.items() if speaker[0] != rule.id}
            continue
        if rule.flood is None and not rule.newest:
            lasts.setdefault((rule.id, *signature(event.row, "")[:3]), Last()).take(event)
        last_at, last_offset = event.row["last_at"], event.row.get("last_offset")
        key = signature(event.row, event.message)
        known = gatherer.add(rule, event.row, event.message)
        mine = (rule.id, *(key if rule.flood is None else key[:3]))
        if known is not None:
            rows.append(known.finding)
            newest[mine] = newest[mine[:4]] = known.finding
        row = newest.get(mine, newest.get(mine[:4]))
        if row is not None and event.more:
            row["count"] += event.more
            row["last_at"] = max(row["last_at"], last_at)
            row["last_offset"] = max(row.get("last_offset") or 0, last_offset or 0) or None
    return rows + [
        apart
        for last in lasts.values()
        if last.is_apart(steps_between) and (apart := split_off(last, rows, ids.__next__)) is not None
    ]


@dataclass
class Last:
    """The last match of a rule and writer in a file, and the offset of the match before."""

    row: Row | None = None
    before: int | None = None
    """Offset (bytes)."""

    def take(self, event: Match) -> None:
        """Keep the last of an event's matches and the earlier ones, and the offset of the match before it."""
        for row in event.rows:
            if self.row is None or row["offset"] > self.row["offset"]:
                self.before = None if self.row is None else self.row["offset"]
                self.row = dict(row)
            elif self.before is None or row["offset"] > self.before:
                self.before = row["offset"]

    def is_apart(self, steps_between: StepsBetween) -> bool:
        """Return True if steps were logged between the two matches, and at most one after the last."""
        if self.row is None or self.before is None:
            return False
        if steps_between(self.row, self.before, self.row["offset"]) == 0:
            return False
        return steps_between(self.row, self.row["offset"], None) <= 1


def split_off(last: Last, rows: Iterable[Row], new_id: Callable[[], int]) -> Row | None:
    """Make the last match a finding of its own, removed from the one that counts it; return it.

    None if no finding counts that match.
    """
    row = last.row
    if row is None:
        return None
    for known in rows:
        if known.get("last_offset") == row["offset"] and known["rule"] == row["rule"]:
            known["count"] -= 1
            known["last_offset"] = None if last.before == known["offset"] else last.before
            apart = {**row, "id": new_id(), "count": 1, "last_at": row["at"]}
            apart.pop("last_offset", None)
            return apart
    return None
