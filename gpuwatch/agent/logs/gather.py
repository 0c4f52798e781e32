"""Findings of one file over time: equal ones counted, floods gathered, recoveries closing what they end."""

import re
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

    from .ruleset import Rule  # noqa: F401 - used in type comments


SAME_AFTER_S = 600.0
"""An equal line after a longer silence is a new finding."""
TELL_EVERY_S = 2.0
"""A finding whose count grows is told again this often."""
MAX_OF_A_RULE = 40
"""Different findings of one rule and file that are kept apart; the rest is counted with the last of them."""

_DIGITS = re.compile(r"0x[0-9a-fA-F]+|\d+")


class Open(object):
    """A finding that may still grow, or be closed."""

    __slots__ = ("finding", "told", "told_count", "waiting")

    def __init__(self, finding, waiting):
        # type: (dict[str, Any], object) -> None
        self.finding = finding
        self.told = float("-inf")
        self.told_count = 0
        self.waiting = waiting  # type: Any
        """Lines of its block that are still to come; it is told when they have."""


class Gatherer(object):
    """All open findings of one file."""

    def __init__(self, ids):
        # type: (Any) -> None
        self.earlier = None  # type: Gatherer | None
        """Of what stood before in the same file: a recovery ends that too."""
        self._ids = ids
        self._open = {}  # type: dict[str, dict[tuple[object, ...], Open]]
        self._floods = {}  # type: dict[tuple[object, ...], deque[dict[str, Any]]]

    def add(self, rule, finding, message):
        # type: (Rule, dict[str, Any], str) -> Open | None
        """Take a match in: the finding it starts, None where it only counts (or is too few to be told)."""
        key = signature(finding, message)
        at = finding["at"]  # type: float
        mine = self._open.setdefault(rule.id, {})
        if rule.flood is not None:
            key = key[:3]
        known = mine.get(key)
        if known is None and len(mine) >= MAX_OF_A_RULE:
            key, known = next(reversed(list(mine.items())))
        if known is not None and at - known.finding["last_at"] <= SAME_AFTER_S:
            known.finding["count"] += 1
            known.finding["last_at"] = max(at, known.finding["last_at"])
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
        mine[key] = Open(finding, None)
        return mine[key]

    def close(self, rule, fields, at):
        # type: (Rule, dict[str, Any], float) -> list[dict[str, Any]]
        """A recovery line came: what it ends."""
        mine = self._open.get(rule.id, {})
        closed = [] if self.earlier is None else self.earlier.close(rule, fields, at)
        for key, known in list(mine.items()):
            old = known.finding["fields"]  # type: dict[str, Any]
            if all(old.get(name) == fields.get(name) for name in rule.same):
                del mine[key]
                known.finding["closed"] = True
                known.finding["last_at"] = at
                closed.append(dict(known.finding))
        return closed

    def grown(self, now):
        # type: (float) -> list[dict[str, Any]]
        """Findings whose count grew since they were last told; not the ones told a moment ago."""
        known = [each for mine in self._open.values() for each in mine.values() if each.waiting is None]
        return [
            tell(each, now)
            for each in known
            if each.finding["count"] > each.told_count and not 0 <= now - each.told < TELL_EVERY_S
        ]


def tell(known, now):
    # type: (Open, float) -> dict[str, Any]
    """The finding as it stands, noted as told."""
    known.told, known.told_count = now, known.finding["count"]
    known.waiting = None
    return dict(known.finding)


def signature(finding, message):
    # type: (dict[str, Any], str) -> tuple[object, ...]
    """Equal for findings that are the same thing once more: speaker, fields, words without numbers."""
    fields = finding["fields"]  # type: dict[str, Any]
    return (
        finding.get("rank"),
        finding.get("local_rank"),
        finding.get("host"),
        tuple(sorted(fields.items())),
        _DIGITS.sub("#", message[:300]),
    )
