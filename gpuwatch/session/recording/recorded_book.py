"""The alerts and incidents of a recording, as they were judged when it was made."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import HangCheck, Incident
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S, EndedJob
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.session.recording.book_records import BookChange, RecordedIncident


class RecordedBook(AlertBook):
    """Judges nothing: it takes the records. What a person acknowledges or silences holds for this replay."""

    _known: dict[str, Alert]
    _recorded: dict[str, RecordedIncident]
    _order: Sequence[str]
    _jobs: tuple[EndedJob, ...]
    _checks: dict[str, HangCheck]

    def clear(self) -> None:
        """Know nothing, as before a key frame."""
        self._known, self._recorded, self._order, self._jobs = {}, {}, (), ()
        self._checks = getattr(self, "_checks", {})
        self.checkpoints = {}
        self._show()

    def take(self, change: BookChange) -> None:
        """Take a record in."""
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
        """Jobs that had ended before their nodes were connected, the last one first."""
        return self._jobs

    def lasts_s(self, job: str | None) -> float:
        """How long (seconds) a line or event of a job counts after it was reported."""
        return ENDED_S if job in {each.name for each in self._jobs} else super().lasts_s(None)

    @property
    def unsettled(self) -> tuple[Alert, ...]:
        """None: nothing more can be asked."""
        return ()

    @property
    def behind(self) -> bool:
        """Whether a record was taken in that is not shown yet."""
        return self._dirty

    def judge_now(self) -> None:
        """Nothing: what was judged stands in the recording."""

    def keep_hang_check(self, id: str, hang_check: HangCheck) -> None:  # noqa: A002 - as in the book
        """Keep the answer to a question that was asked of the recording."""
        self._checks[id] = hang_check
        self._dirty = True

    def update(self, fleet: Fleet, now: float, wall: float) -> bool:  # noqa: ARG002 - as in the book
        """Show what the records state, with the marks of the person."""
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
        return alert  # what was acknowledged or silenced then stays so

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
