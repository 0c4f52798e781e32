"""The alerts and incidents of a recording, as they were judged when it was made."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import HangCheck, Incident
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S, EndedJob
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.session.recording.book_records import BookChange, RecordedIncident


class RecordedBook(AlertBook):
    """An alert book that applies the records of a recording instead of judging.

    Acknowledgements and silences are valid for this replay only.
    """

    _known: dict[str, Alert]
    _recorded: dict[str, RecordedIncident]
    _order: Sequence[str]
    _jobs: tuple[EndedJob, ...]
    _checks: dict[str, HangCheck]

    def clear(self) -> None:
        """Empty the book before a key frame is applied; hang checks stay."""
        self._known, self._recorded, self._order, self._jobs = {}, {}, (), ()
        self._checks = getattr(self, "_checks", {})
        self.checkpoints = {}
        self._show()

    def take(self, change: BookChange) -> None:
        """Apply a record."""
        if change.whole:
            self._known, self._recorded, self._jobs, self.checkpoints = {}, {}, (), {}
        for name in change.gone:
            self._known.pop(name, None)
        self._known.update((one.id, one) for one in change.alerts)
        if change.alert_order is not None:
            names = [name for name in change.alert_order if name in self._known]
            self._known = {name: self._known[name] for name in names}
        self._recorded.update((one.incident.id, one) for one in change.incidents)
        self._order = tuple(dict.fromkeys(change.order))
        if change.checkpoints is not None:
            self.checkpoints = dict(change.checkpoints)
        if change.ended is not None:
            self._jobs = change.ended
        self._dirty = True

    @property
    def ended_jobs(self) -> tuple[EndedJob, ...]:
        """Jobs that had ended before their nodes were connected, newest first."""
        return self._jobs

    def lasts_s(self, job: str | None) -> float:
        """Return how many seconds a line or event of a job counts after it was reported."""
        return ENDED_S if job in {each.name for each in self._jobs} else super().lasts_s(None)

    @property
    def unsettled(self) -> tuple[Alert, ...]:
        """Return an empty tuple: a replay cannot request lines."""
        return ()

    @property
    def behind(self) -> bool:
        """True if records were applied that are not shown yet."""
        return self._dirty

    def judge_now(self) -> None:
        """No-op: the judgements are in the recording."""

    def keep_hang_check(self, id: str, hang_check: HangCheck) -> None:  # noqa: A002 - as in the book
        """Store a hang check that was made on the recording."""
        self._checks[id] = hang_check
        self._dirty = True

    def updating(self, fleet: Fleet, now: float, wall: float) -> Steps[bool]:  # noqa: ARG002 - as in the book
        """Show the state of the applied records, with the operator's marks; return True if anything changed.

        `wall`: unix seconds.
        """
        yield from ()  # one step
        self._wall = wall
        self._dirty |= self._marks.expire(wall)
        if self._dirty:
            self._show()
            return True
        return False

    def _mark_now(self) -> None:
        self._dirty = True

    def _show(self) -> None:
        self._dirty = False
        self.alerts = {name: self._marked(alert) for name, alert in self._known.items()}
        wanted = (self._recorded[name] for name in self._order if name in self._recorded)
        self.incidents = [self._whole(one) for one in wanted]
        self.version += 1

    def _marked(self, alert: Alert) -> Alert:
        own = self._marks.applied(alert, self._wall)
        if own is alert or (own.acknowledged >= alert.acknowledged and own.silenced >= alert.silenced):
            return own
        return alert  # alerts that were acknowledged or silenced then stay so

    def _whole(self, one: RecordedIncident) -> Incident:
        alerts = tuple(
            self._marked(one.own[name]) if name in one.own else self.alerts[name]
            for name in dict.fromkeys(one.alerts)
            if name in one.own or name in self.alerts
        )
        incident = structs.replace(one.incident, alerts=alerts)
        check = self._checks.get(incident.id)
        acknowledged = incident.acknowledged or (bool(alerts) and all(each.acknowledged for each in alerts))
        return structs.replace(incident, hang_check=check or incident.hang_check, acknowledged=acknowledged)
