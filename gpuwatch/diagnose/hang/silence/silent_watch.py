"""Alerts for jobs that are silent for far longer than usual, although no sign shows that they hang.

A one-shot report uses the same rule (`silence_snapshot`): screens and reports agree.
"""

from __future__ import annotations

from msgspec import structs

from gpuwatch.diagnose.hang.hang_watch import HangWatch
from gpuwatch.diagnose.hang.silence.silence_snapshot import SilentJob, silent_jobs
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch, UnbrokenTimes
from gpuwatch.fleet.fleet import Fleet

CODE = "job.silent"
EVERY_S = 5.0
HOLD_S = 10.0
"""Seconds for which a silence must be seen; after a clock jump, ages are wrong until the next ping."""
PAUSES = 1.5
"""A silence shorter than this multiple of the longest earlier pause is taken for a pause as well."""


class SilentWatch(PeriodicWatch):
    """Raises a warning for each stalled job about which no alert of `HangWatch` fires."""

    def __init__(self, hangs: HangWatch, hang_s: float) -> None:
        super().__init__(EVERY_S)
        self._hangs = hangs
        self._hang_s = hang_s
        self._seen = UnbrokenTimes[str]()
        """The ids of the alerts whose silence is seen."""

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        found = silent_jobs(fleet.nodes.values(), self._hang_s, wall, fleet.progress)
        all_live = {name for name, node in fleet.nodes.items() if node.state(now) == "live"}
        seen = {
            f"{CODE}@{each.job}": each
            for each in found
            if self._is_reported(each) and all_live >= set(each.nodes)
        }
        self._seen.update(seen, now)
        silent = {name: each for name, each in seen.items() if self._seen.for_s(name, now) >= HOLD_S}
        before = {name for name, alert in self.alerts.items() if alert.state == "firing"}
        for name in before - silent.keys():
            self.alerts[name] = structs.replace(self.alerts[name], state="resolved")
        for name in silent.keys() - before:
            self.alerts[name] = _alert(name, silent[name], wall)
        return before != silent.keys()

    def _is_reported(self, job: SilentJob) -> bool:
        if job.job is None or not job.is_stalled or job.is_starting or job.stopped:
            return False  # other alerts report a job that never began, or whose ranks are stopped
        return not self._hangs.is_firing(job.job) and job.seconds > PAUSES * self._hangs.longest_pause_s(
            job.job
        )


def _alert(name: str, job: SilentJob, wall: float) -> Alert:
    began = wall - job.seconds
    return Alert(
        id=name,
        code=CODE,
        severity="warning",
        title="The job is silent",
        text=job.text_at(wall),
        proof=(Proof("value", f"the newest line of its {job.ranks} ranks", began),),
        job=job.job,
        first=began,
        last=wall,
    )
