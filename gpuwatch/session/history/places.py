"""Finds the earlier incidents of a class at a place: their number does not slow down each judgement. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from gpuwatch.session.history.seen_incident import SAME_S, SLACK_S, SeenIncident, is_same, is_same_place

MAX_COMPARED = 64
"""Most earlier incidents of a place, the newest ones, that one incident is compared with."""


class IncidentsByPlace:
    """Incidents by class and place, each place in the order of their starts."""

    def __init__(self) -> None:
        self._at: dict[tuple[object, ...], list[SeenIncident]] = {}

    def add(self, one: SeenIncident) -> None:
        """Add an incident."""
        for key in _keys(one):
            insort(self._at.setdefault(key, []), one, key=_first)

    def remove(self, one: SeenIncident) -> None:
        """Remove an incident that was added."""
        for key in _keys(one):
            here = self._at[key]
            at = bisect_left(here, one.first, key=_first)
            while here[at] is not one:
                at += 1
            del here[at]
            if not here:
                del self._at[key]

    def earlier(self, one: SeenIncident, since: float) -> list[SeenIncident]:
        """Return other incidents of the class and place of `one` that began from `since` on, newest first.

        Records of one incident count once. At most `MAX_COMPARED` are compared.
        """
        found = {id(each): each for key in _keys(one) for each in self._newest(key, one, since)}
        others = (each for each in found.values() if is_same_place(each, one) and not is_same(each, one))
        return list(_distinct(sorted(others, key=_first)))[::-1]

    def _newest(self, key: tuple[object, ...], one: SeenIncident, since: float) -> list[SeenIncident]:
        here = self._at.get(key, [])
        end = bisect_left(here, one.first - SAME_S, key=_first)
        return here[max(bisect_left(here, since, key=_first), end - MAX_COMPARED) : end]


def _first(one: SeenIncident) -> float:
    return one.first


def _keys(one: SeenIncident) -> Iterator[tuple[object, ...]]:
    if one.uuid is not None:
        yield one.code, one.uuid
    if one.node is not None:
        yield one.code, one.node, one.gpu


def _distinct(incidents: list[SeenIncident]) -> Iterator[SeenIncident]:
    """Yield the different incidents of one place, in the order of their starts.

    Further records of an incident that was yielded are left out.
    """
    causes: set[str] = set()
    timed = ended = ended_untimed = float("-inf")
    for one in incidents:
        last = ended_untimed if one.timed else ended
        again = (
            one.cause in causes or one.first <= last + SLACK_S or (one.timed and one.first <= timed + SAME_S)
        )
        if again:
            continue
        causes.update([one.cause] if one.cause else ())
        ended = max(ended, one.last)
        timed = one.first if one.timed else timed
        ended_untimed = ended_untimed if one.timed else max(ended_untimed, one.last)
        yield one
