"""What the operator marked: acknowledged alerts and silences."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.silence import Silence


class OperatorMarks:
    """Sets the flags `acknowledged` and `silenced` of alerts."""

    def __init__(self) -> None:
        self.silences: tuple[Silence, ...] = ()
        """Plain data, for the session to store."""
        self._acknowledged: dict[str, tuple[int, float]] = {}
        """Alert -> its count when it was acknowledged, and when that was (unix seconds)."""

    def acknowledge(self, alerts: Iterable[Alert], wall: float) -> None:
        """Acknowledge these alerts; a value that violates its limit again afterwards is not acknowledged."""
        self._acknowledged.update((alert.id, (alert.count, wall)) for alert in alerts)

    def unacknowledge(self, alerts: Iterable[Alert]) -> None:
        """Clear the acknowledgement of these alerts."""
        for alert in alerts:
            self._acknowledged.pop(alert.id, None)

    def silence(self, silence: Silence) -> None:
        """Add a silence; it replaces one of the same alerts."""
        self.unsilence(silence)
        self.silences = (*self.silences, silence)

    def unsilence(self, silence: Silence) -> None:
        """Remove the silence of the same alerts, whenever it ends."""
        same = structs.replace(silence, until=None)
        self.silences = tuple(each for each in self.silences if structs.replace(each, until=None) != same)

    def restore(self, silences: Iterable[Silence]) -> None:
        """Replace all silences by those of an earlier session."""
        self.silences = tuple(silences)

    def expire(self, wall: float) -> bool:
        """Remove silences that have ended; True where there was one."""
        kept = tuple(each for each in self.silences if each.until is None or wall < each.until)
        ended, self.silences = kept != self.silences, kept
        return ended

    def applied(self, alert: Alert, wall: float) -> Alert:
        """The alert with its flags as of `wall` (unix seconds)."""
        count, at = self._acknowledged.get(alert.id, (alert.count, None))
        acknowledged = at is not None and not (alert.proof[0].kind == "value" and alert.count > count)
        silenced = any(each.covers(alert, wall) for each in self.silences)
        if acknowledged == alert.acknowledged and silenced == alert.silenced:
            return alert
        at = at if acknowledged else None
        return structs.replace(alert, acknowledged=acknowledged, acknowledged_at=at, silenced=silenced)
