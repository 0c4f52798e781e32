"""Alerts for jobs whose ranks wait: at their start, after the training finished, or stopped by a signal."""

from __future__ import annotations

from msgspec import structs

from gpuwatch.diagnose.missing_ranks.stopped import StoppedRanks, stopped_ranks
from gpuwatch.diagnose.missing_ranks.unended import UnendedRanks, unended_ranks
from gpuwatch.diagnose.missing_ranks.unstarted import UnstartedRanks, sleeping_jobs, unstarted_ranks
from gpuwatch.diagnose.missing_ranks.vanished import EVERY_S
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.fleet.fleet import Fleet


def waiting_ranks(fleet: Fleet, now: float) -> list[UnstartedRanks | UnendedRanks | StoppedRanks]:
    """Return the ranks of all jobs that wait: unstarted, unended and stopped ones.

    `now`: monotonic seconds.
    """
    waiting = [*unstarted_ranks(fleet, now), *sleeping_jobs(fleet, now)]
    return [*waiting, *unended_ranks(fleet, now), *stopped_ranks(fleet, now)]


class WaitingWatch(PeriodicWatch):
    """Raises an alert for each of `waiting_ranks`."""

    def __init__(self) -> None:
        super().__init__(EVERY_S)

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        waiting = {f"{one.code}@{one.job}": one for one in waiting_ranks(fleet, now)}
        before = {name for name, alert in self.alerts.items() if alert.state == "firing"}
        for name in before - waiting.keys():
            self.alerts[name] = structs.replace(self.alerts[name], state="resolved")
        for name in waiting.keys() - before:
            self.alerts[name] = _alert(name, waiting[name], wall)
        return before != waiting.keys()


def _alert(name: str, one: UnstartedRanks | UnendedRanks | StoppedRanks, wall: float) -> Alert:
    proof = Proof("value", f"{one.present} of {one.world_size} ranks were found", wall, node=one.node.name)
    return Alert(
        id=name,
        code=one.code,
        severity="warning",
        title=one.title,
        text=one.text if isinstance(one, StoppedRanks) else one.text_at(wall),
        proof=(proof,),
        job=one.job,
        rank=one.rank if isinstance(one, StoppedRanks) else None,
        node=one.node.name if isinstance(one, StoppedRanks) else None,
        first=wall - one.silent_s,
        last=wall,
    )
