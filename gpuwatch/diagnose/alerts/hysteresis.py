"""Hysteresis: a symptom becomes an alert once it lasts; the alert ends a while after the symptom is gone."""

from __future__ import annotations

from math import inf

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.fleet.fleet import Fleet


class Hysteresis:
    """Stores for each alert id when its symptom was first and last seen, and the alert once it is raised.

    `alerts` has the firing and the resolved ones. Times are monotonic seconds unless a name contains `wall`.
    """

    def __init__(self, clear_s: float = inf, skipped_s: float = inf) -> None:
        """Create an empty tracker.

        Args:
            clear_s: With `clear` an alert ends when its symptom was not seen for this many seconds.
            skipped_s: A symptom that was not seen for longer than this (seconds) starts again from zero.
        """
        self._clear_s = clear_s
        self._skipped_s = skipped_s
        self._since: dict[str, tuple[float, float]] = {}
        """Alert id -> when its symptom was first and last seen (monotonic)."""
        self.alerts: dict[str, Alert] = {}

    def seen(self, name: str, now: float) -> float:
        """Record that a symptom is seen now; return for how many seconds it has been seen."""
        first, last = self._since.get(name, (now, now))
        first = now if now - last > self._skipped_s else first
        self._since[name] = first, now
        return now - first

    def times_s(self, name: str, now: float) -> tuple[float, float]:
        """Return for how many seconds a recorded symptom has been known, and has not been seen."""
        first, last = self._since[name]
        return now - first, now - last

    def firing(self, name: str) -> Alert | None:
        """Return the alert of this id if it is firing, else None."""
        alert = self.alerts.get(name)
        return alert if alert is not None and alert.state == "firing" else None

    def report(self, alert: Alert, now: float, wall: float, lasted_s: float | None = None) -> None:
        """Raise or renew an alert whose symptom `seen` has recorded; a raise after its end increases `count`.

        `lasted_s`: seconds since its begin; None: since its symptom was first seen. `wall`: unix seconds.
        """
        before = self.alerts.get(alert.id)
        count = 1 if before is None else before.count + (before.state != "firing")
        began = wall - (now - self._since[alert.id][0] if lasted_s is None else lasted_s)
        self.alerts[alert.id] = structs.replace(alert, first=began, last=wall, count=count)

    def clear(self, now: float, wall: float) -> bool:
        """End the alerts whose symptom was not seen for `clear_s`; return True if one ended.

        `wall`: unix seconds.
        """
        gone = [name for name, (_, last) in self._since.items() if now - last > self._clear_s]
        return any([self.end(name, wall) for name in gone])  # noqa: C419 - each has to be ended

    def end(self, name: str, wall: float) -> bool:
        """End an alert at once, and forget its symptom; return True if it fired. `wall`: unix seconds."""
        self._since.pop(name, None)
        alert = self.firing(name)
        if alert is None:
            return False
        self.alerts[name] = structs.replace(alert, state="resolved", last=wall)
        return True


class SymptomWatch(PeriodicWatch):
    """Looks for symptoms at intervals; an alert ends when its symptom was not seen for `clear_s`."""

    def __init__(self, every_s: float, clear_s: float) -> None:
        super().__init__(every_s)
        self._lasting = Hysteresis(clear_s)
        self.alerts = self._lasting.alerts

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        moved = self._check_fleet(fleet, now, wall)
        return self._lasting.clear(now, wall) or moved

    def _check_fleet(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Record the current symptoms and report those that lasted.

        Return True if an alert fired or changed.
        """
        raise NotImplementedError
