"""Gathers the findings of one file: counts repeats, merges floods, and closes findings on recovery."""

import re
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..matching.ruleset import CompiledRule


SAME_AFTER_S = 600.0
"""Seconds of silence after which an equal line is a new finding."""
REPORT_EVERY_S = 2.0
"""Seconds between reports of a growing finding."""
GROWN_AT_ONCE = 20
"""Findings of a file whose new counts are reported at a time."""
MAX_OF_A_SPEAKER = 40
"""Different findings of a rule and writer that are kept separately; the rest counts with the last one."""
MAX_OPEN = 8192
"""Findings over all rules and writers of a file: enough for a merged log of 512 ranks with a dozen each."""
ROOM_EVERY_S = 60.0
"""Seconds between cleanups of findings that are too old to grow, when full."""

_DIGITS = re.compile(r"0x[0-9a-fA-F]+|\d+")


class Open(object):
    """A finding that may still count repeats, or be closed."""

    __slots__ = ("finding", "reported", "reported_count", "waiting")

    def __init__(self, finding: "dict[str, Any]", waiting: object) -> None:
        self.finding = finding
        self.reported = float("-inf")
        self.reported_count = 0
        self.waiting: Any = waiting
        """Lines of its block that are still to come; it is reported after them."""


class Crowd(object):
    """The open findings of one rule and writer: their number, and the last one."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: tuple[object, ...] | None = None


class Gatherer(object):
    """Collects the findings of one file: counts repeats, merges floods, closes findings on recovery."""

    def __init__(self, ids: "Any") -> None:
        self.earlier: Gatherer | None = None
        """The open findings of the file's earlier content, which a recovery ends too."""
        self._ids = ids
        self._open: dict[str, dict[tuple[object, ...], Open]] = {}
        self._crowds: dict[tuple[object, ...], Crowd] = {}
        self._count = 0
        self._growing: dict[Open, None] = {}
        self._made_room = float("-inf")
        self._floods: dict[tuple[object, ...], deque[dict[str, Any]]] = {}
        self.left_out = 0
        """Matches over the limit: counted with another writer's finding, or not at all."""

    def add(self, rule: "CompiledRule", finding: "dict[str, Any]", message: str) -> "Open | None":
        """Add a match of a rule; return the finding that it starts.

        None if it is only counted: a repeat, no room, or too few of a flood yet.
        """
        key = signature(finding, message)
        at: float = finding["at"]
        mine = self._open.setdefault(rule.id, {})
        if rule.newest:
            return self._renewed(rule.id, key[:3], finding)
        if rule.flood is not None:
            key = key[:3]
        known = mine.get(key)
        if known is None:
            last, full = self._crowded(rule.id, key, at)
            if last is not None and at - mine[last].finding["last_at"] > SAME_AFTER_S:
                self._forget(rule.id, last)
            else:
                self.left_out += full
                if last is not None:
                    known = mine[last]
                elif full:
                    return None
        if known is not None and at - known.finding["last_at"] <= SAME_AFTER_S:
            known.finding["count"] += 1
            known.finding["last_at"] = max(at, known.finding["last_at"])
            known.finding["last_offset"] = finding["offset"]
            self._growing[known] = None
            return None
        count = 1
        if rule.flood is not None:
            recent = self._floods.setdefault((rule.id,) + key, deque(maxlen=rule.flood.count))
            recent.append(finding)
            while recent[0]["at"] < at - rule.flood.seconds:
                recent.popleft()
            if len(recent) < rule.flood.count:
                return None
            finding, count = recent[0], len(recent)
            recent.clear()
        finding["id"] = self._ids()
        finding["count"], finding["last_at"] = count, at
        return self._opened(rule.id, key, Open(finding, None))

    def _renewed(self, rule: str, key: "tuple[object, ...]", finding: "dict[str, Any]") -> "Open | None":
        """Return a new finding if this match is a writer's first one; else replace the known finding by it.

        None: it was known, or there is no room for another.
        """
        known = self._open[rule].get(key)
        if known is None:
            if self._count >= MAX_OPEN:
                self.left_out += 1
                return None
            finding["id"] = self._ids()
            finding["count"], finding["last_at"] = 1, finding["at"]
            return self._opened(rule, key, Open(finding, None))
        finding["id"], finding["count"] = known.finding["id"], known.finding["count"] + 1
        finding["last_at"] = max(finding["at"], known.finding["last_at"])
        known.finding = finding
        self._growing[known] = None
        return None

    def _crowded(
        self, rule: str, key: "tuple[object, ...]", at: float
    ) -> "tuple[tuple[object, ...] | None, bool]":
        """Return (key of the finding with which a new one is counted, True if the file is full).

        The key is None if there is room for a separate finding.
        """
        crowd = self._crowds.get((rule,) + key[:3])
        if crowd is not None and crowd.count >= MAX_OF_A_SPEAKER:
            return crowd.last, False
        if self._count < MAX_OPEN or self._make_room(at):
            return None, False
        if crowd is not None and crowd.last is not None:
            return crowd.last, True
        return next(iter(self._open[rule]), None), True

    def _make_room(self, at: float) -> bool:
        """Drop findings that are too old to count repeats; return True if there is room for another one.

        At most once in `ROOM_EVERY_S`; in between it returns False.
        """
        if at - self._made_room < ROOM_EVERY_S:
            return False
        self._made_room = at
        for rule, mine in self._open.items():
            for key, known in list(mine.items()):
                if known.waiting is None and at - known.finding["last_at"] > SAME_AFTER_S:
                    self._forget(rule, key)
        return self._count < MAX_OPEN

    def _opened(self, rule: str, key: "tuple[object, ...]", known: "Open") -> "Open":
        crowd = self._crowds.setdefault((rule,) + key[:3], Crowd())
        if key not in self._open[rule]:
            crowd.count += 1
            self._count += 1
        crowd.last = key
        self._open[rule][key] = known
        self._growing[known] = None
        return known

    def _forget(self, rule: str, key: "tuple[object, ...]") -> None:
        self._growing.pop(self._open[rule].pop(key), None)
        crowd = self._crowds[(rule,) + key[:3]]
        crowd.count -= 1
        self._count -= 1
        if crowd.last == key:
            crowd.last = None
        if not crowd.count:
            del self._crowds[(rule,) + key[:3]]

    def close(self, rule: "CompiledRule", fields: "dict[str, Any]", at: float) -> "list[dict[str, Any]]":
        """Close the findings that a recovery line ends, and return them."""
        closed = [] if self.earlier is None else self.earlier.close(rule, fields, at)
        for key, known in list(self._open.get(rule.id, {}).items()):
            old: dict[str, Any] = known.finding["fields"]
            if all(old.get(name) == fields.get(name) for name in rule.same):
                self._forget(rule.id, key)
                known.finding["closed"] = True
                known.finding["last_at"] = at
                closed.append(dict(known.finding))
        return closed

    def grown(self, now: float, most: int = GROWN_AT_ONCE) -> "list[dict[str, Any]]":
        """Return up to `most` findings whose count grew since they were last reported.

        Findings that were reported less than `REPORT_EVERY_S` ago are left out.
        """
        out: list[dict[str, Any]] = []
        for known in list(self._growing):
            if len(out) >= most:
                break
            if known.waiting is not None:
                continue
            if known.finding["count"] <= known.reported_count:
                del self._growing[known]
            elif not 0 <= now - known.reported < REPORT_EVERY_S:
                out.append(report(known, now))
                del self._growing[known]
        return out


def report(known: "Open", now: float) -> "dict[str, Any]":
    """Return a finding as it is now, and mark it as reported."""
    known.reported, known.reported_count = now, known.finding["count"]
    known.waiting = None
    return dict(known.finding)


def signature(finding: "dict[str, Any]", message: str) -> "tuple[object, ...]":
    """Return a key that is equal for repeats of a finding: writer, fields, words without numbers."""
    fields: dict[str, Any] = finding["fields"]
    return (
        finding.get("rank", finding.get("index")),
        finding.get("local_rank"),
        finding.get("host"),
        tuple(sorted(fields.items())),
        _DIGITS.sub("#", message[:300]),
    )
