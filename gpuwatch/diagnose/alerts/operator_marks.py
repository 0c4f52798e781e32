"""Marks of the operators: acknowledgements and silences of alerts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert, Silence

AHEAD_S = 600.0
"""Seconds in the future beyond which an acknowledgement is ignored: its cockpit's clock is wrong."""
SAME_S = 5.0
"""Two cockpits' dates of one alert differ by at most this (seconds)."""
STANDS_S, STARTED_S = 86_400.0, 120.0
"""A threshold alert that begins within `STARTED_S` of a cockpit's start keeps its acknowledgement.

The acknowledgement must not be older than `STANDS_S` (seconds).
"""


class Acknowledgement(NamedTuple):
    """Who acknowledged which alert, and when. Times in unix seconds."""

    alert: str
    at: float
    by: str | None = None
    first: float = 0.0
    """Start of the alert."""


@dataclass
class _Acknowledged:
    mark: Acknowledgement
    count: int | None
    """The alert's `count` when it was acknowledged; None: by another cockpit, the count is unknown."""


class OperatorMarks:
    """The acknowledgements and silences of operators; sets the flags of alerts by them."""

    def __init__(self) -> None:
        self.silences: tuple[Silence, ...] = ()
        """The silences as plain data, for the session to store."""
        self._acknowledged: dict[str, _Acknowledged] = {}
        """Alert id -> its acknowledgement."""
        self._began: float | None = None
        """When acknowledgements were first restored (unix seconds)."""
        self.lapsed: set[str] = set()
        """Ids of alerts that fired again after they were acknowledged; the session takes and clears them."""

    def acknowledge(
        self, alerts: Iterable[Alert], wall: float, by: str | None = None
    ) -> list[Acknowledgement]:
        """Acknowledge these alerts and return the marks made.

        If a value crosses its limit again later, its mark lapses. `wall`: unix seconds.
        """
        made = {alert.id: (Acknowledgement(alert.id, wall, by, alert.first), alert.count) for alert in alerts}
        self._acknowledged.update((name, _Acknowledged(*each)) for name, each in made.items())
        return [mark for mark, _ in made.values()]

    def unacknowledge(self, alerts: Iterable[Alert]) -> None:
        """Clear the acknowledgement of these alerts."""
        for alert in alerts:
            self._acknowledged.pop(alert.id, None)

    def restore_acknowledged(self, marks: Iterable[Acknowledgement], wall: float) -> None:
        """Replace all acknowledgements by those of all cockpits; ignore those from the future.

        That is, later than `wall` (unix seconds) by more than `AHEAD_S`.
        """
        self._began = wall if self._began is None else self._began
        earlier, self._acknowledged = self._acknowledged, {}
        for mark in marks:
            if mark.at > wall + AHEAD_S:
                continue  # a mark from the future would cover every later alert of this id
            known = earlier.get(mark.alert)
            count = known.count if known is not None and known.mark.at == mark.at else None
            self._acknowledged[mark.alert] = _Acknowledged(mark, count)

    def silence(self, silence: Silence) -> None:
        """Add a silence; it replaces one with the same match."""
        self.unsilence(silence)
        self.silences = (*self.silences, silence)

    def unsilence(self, silence: Silence) -> None:
        """Remove the silence with the same match, whatever its end."""
        same = structs.replace(silence, until=None)
        self.silences = tuple(each for each in self.silences if structs.replace(each, until=None) != same)

    def restore(self, silences: Iterable[Silence]) -> None:
        """Replace all silences by those of an earlier session."""
        self.silences = tuple(silences)

    def expire(self, wall: float) -> bool:
        """Remove silences that have ended; return True if there were any. `wall`: unix seconds."""
        kept = tuple(each for each in self.silences if each.until is None or wall < each.until)
        ended, self.silences = kept != self.silences, kept
        return ended

    def applied(self, alert: Alert, wall: float) -> Alert:
        """Return the alert with `acknowledged` and `silenced` set as of `wall` (unix seconds)."""
        mark = self._mark_of(alert)
        silenced = any(each.covers(alert, wall) for each in self.silences)
        at, by = (None, None) if mark is None else (mark.at, mark.by)
        if (at, by, silenced) == (alert.acknowledged_at, alert.acknowledged_by, alert.silenced):
            return alert
        return structs.replace(
            alert,
            acknowledged=mark is not None,
            acknowledged_at=at,
            acknowledged_by=by,
            silenced=silenced,
        )

    def _mark_of(self, alert: Alert) -> Acknowledgement | None:
        known = self._acknowledged.get(alert.id)
        if known is None:
            return None
        is_value = alert.proof[0].kind == "value"
        if (known.count is None or not is_value) and not self._covers(known.mark, alert, is_value=is_value):
            return None  # a job that is started again fails under the same id
        if known.count is None:
            known.count = alert.count
        if is_value and alert.count > known.count:
            del self._acknowledged[alert.id]
            self.lapsed.add(alert.id)
            return None
        return known.mark

    def _covers(self, mark: Acknowledgement, alert: Alert, *, is_value: bool) -> bool:
        """Return True if this very alert was acknowledged, not an earlier one of the same id.

        `is_value`: the alert is about a value, which may have held since before this cockpit's start.
        """
        if alert.first <= mark.at or abs(alert.first - mark.first) <= SAME_S:
            return True
        began = self._began or 0.0
        stood = mark.at <= began < mark.at + STANDS_S and alert.first <= began + STARTED_S
        return is_value and stood
