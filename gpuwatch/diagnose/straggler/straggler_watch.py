"""Raises alerts for ranks that stand out within their job for long enough, with reason and cost.

Example: job 4711 steps, and rank 7's mean clock over the window (`hold_s`, 30 s by default) is 71 % of its
peers' median at every check. Once that has lasted `hold_s` and half a window, the alert `slower_than_peers`
is raised; the alert ends when the outlier was gone for `clear_s` (60 s by default), or when the rank or its
job has no process any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuwatch.diagnose.alerts.hysteresis import Hysteresis
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.check_interval import CheckInterval, UnbrokenTimes
from gpuwatch.diagnose.straggler.alerts import Suspect, alert_of, cpu_alert
from gpuwatch.diagnose.straggler.compute import idle, power, slow_clocks
from gpuwatch.diagnose.straggler.cpu import cpu_stragglers, cpu_workers
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad, Group, Loads, Usual
from gpuwatch.diagnose.straggler.links import narrow_pcie, throughput
from gpuwatch.diagnose.straggler.outliers import Outlier, Sign
from gpuwatch.diagnose.straggler.own_time import lasting_by_logs, unlike_by_own_times
from gpuwatch.diagnose.straggler.stepping_jobs import SteppingPace, paces
from gpuwatch.diagnose.straggler.throttled import slowed_jobs, throttled_ranks
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Thresholds

EVERY_S = 5.0
SKIPPED_S = 2.5 * EVERY_S
"""An outlier that reappears after a longer gap than this counts as new (seconds)."""
NODES_AT_ONCE = 128
"""Most nodes that are read in one call: 25 ms for eight GPUs each, so that the screen stays responsive."""
MAX_WINDOW_S = 60.0
SMEARED_SHARE = 0.5
"""Share of the window for which a mean may exceed its limit after the value is normal again."""


class StragglerWatch:
    """Raises an alert for a rank that stood out long enough, and ends it once that is gone for a while."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._window_s = max(EVERY_S, min(MAX_WINDOW_S, thresholds.hold_s))
        """Seconds over which means are taken: long enough that no single moment within a step decides."""
        self._interval = CheckInterval(EVERY_S)
        self._lasting = Hysteresis(thresholds.clear_s, SKIPPED_S)
        self._stepping = UnbrokenTimes[str]()
        """The jobs that step without a pause."""
        self._reading: Loads | None = None
        self._running: set[tuple[str | None, int | None]] = set()
        """(job, rank) of the processes at the last check; (job, None): a job that had any."""

    def hurry(self) -> None:
        """Make the next `go` check the ranks, whatever the interval."""
        self._interval.hurry()

    @property
    def alerts(self) -> dict[str, Alert]:
        """Return alert id -> alert, firing or resolved."""
        return self._lasting.alerts

    def go(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Check the ranks if the interval has passed, a part of the nodes per call.

        Return True if an alert fired or ended.

        `now`: monotonic, `wall`: unix seconds.
        """
        if self._reading is None:
            if not self._interval.is_due(now):
                return False
            self._reading = Loads(fleet, self._window_s)
        if not self._reading.read(NODES_AT_ONCE, now):
            return False
        groups, self._reading = self._reading.groups, None
        pace = paces(fleet, now)
        self._stepping.update(pace, now)
        moved = self._end_with_ranks(fleet, wall)
        for suspect in self._suspects(fleet, groups, pace, now):
            moved |= self._report_gpu(suspect, now, wall)
        for job, ranks in cpu_workers(fleet, pace, now).items():
            for one in cpu_stragglers(ranks):
                alert = cpu_alert(job, one, wall)
                lasted_s = self._lasting.seen(alert.id, now)
                if lasted_s >= self._hold_s(pace.get(job)) and not self._lasting.firing(alert.id):
                    self._lasting.report(alert, now, wall)
                    moved = True
        return self._lasting.clear(now, wall) or moved

    def _end_with_ranks(self, fleet: Fleet, wall: float) -> bool:
        """End the alerts of ranks and jobs whose processes have ended; return True if there were any."""
        before = self._running
        listed = [process for node in fleet.nodes.values() for process in node.processes]
        self._running = {(process.job, rank) for process in listed for rank in (process.rank, None)}
        over = before - self._running
        slowed = [
            name
            for name, alert in self._lasting.alerts.items()
            if over & {(alert.job, alert.rank), (alert.job, None)}
        ]
        return any([self._lasting.end(name, wall) for name in slowed])  # noqa: C419 - each has to be ended

    def _suspects(
        self, fleet: Fleet, groups: dict[Group, list[GpuLoad]], pace: dict[str, SteppingPace], now: float
    ) -> Iterator[Suspect]:
        """Yield the ranks that stand out now, with their figures."""
        places = {(job, load.rank): load for (job, _), group in groups.items() for load in group}
        found: dict[tuple[str, int, str | None], tuple[GpuLoad | None, list[Outlier]]] = {}

        def stands_out(job: str, each: Outlier, load: GpuLoad | None) -> None:
            key = job, each.rank, None if load is None else load.info.uuid
            found.setdefault(key, (load, []))[1].append(each)

        slowed, ranks = slowed_jobs(fleet), Counter(job for job, _ in places)
        for (job, _), group in groups.items():
            steps = self._stepping.for_s(job, now) >= self._window_s
            for each in unlike_peers(group, self._thresholds, steps=steps):
                stands_out(job, each, each.load)
            limit = self._thresholds.peer_clock_pct
            for each in throttled_ranks(group, ranks[job], slowed.get(job) if job in pace else None, limit):
                stands_out(job, each, each.load)
        for job, each in unlike_by_own_times(fleet, now, self._thresholds.peer_time_pct):
            if job in pace:
                stands_out(job, each, places.get((job, each.rank)))
        by_logs = self._by_logs(fleet, pace, now)
        here = {(job, load.info.name) for (job, _, _), (load, _) in found.items() if load is not None}
        usual = {group: Usual.of(groups[group]) for group in here}
        for (job, rank, _), (load, signs) in found.items():
            known = None if load is None else usual[job, load.info.name]
            hold_s = self._hold_s(pace.get(job)) + SMEARED_SHARE * self._window_s
            logged = frozenset(each.sign for each in signs if (job, rank, each.sign) in by_logs)
            yield Suspect(job, rank, load, known, tuple(signs), hold_s, logged)

    def _by_logs(self, fleet: Fleet, pace: dict[str, SteppingPace], now: float) -> set[tuple[str, int, Sign]]:
        """Return (job, rank, sign) that lasted by logs from before the session.

        Empty once the session has watched every job for longer than a sign must last.
        """
        longest_s = max([self._hold_s(each) for each in pace.values()], default=0.0) + self._window_s
        if all(self._stepping.for_s(job, now) > longest_s for job in pace):
            return set()
        held_s = self._thresholds.hold_s + SMEARED_SHARE * self._window_s
        return lasting_by_logs(fleet, now, self._thresholds.peer_time_pct, held_s)

    def _report_gpu(self, suspect: Suspect, now: float, wall: float) -> bool:
        """Raise the alert of a suspect's most severe lasting figure, with the others as evidence.

        Returns True if the alert is new, or the text of a `throttled` one changed.
        """
        lasted = {each.sign: self._lasting.seen(f"{suspect.id}/{each.sign}", now) for each in suspect.signs}
        for each in suspect.signs:
            if self._lasting.firing(suspect.alert_id(each)):
                self._lasting.seen(suspect.alert_id(each), now)
        lead = suspect.lead([each for each in suspect.signs if suspect.has_lasted(each, lasted[each.sign])])
        if lead is None:
            return False
        alert = alert_of(suspect, lead, lasted[lead.sign], self._thresholds.peer_temperature_c, wall)
        firing = self._lasting.firing(alert.id)
        if firing is not None and (lead.sign != "throttled" or firing.text == alert.text):
            return False
        self._lasting.seen(alert.id, now)
        self._lasting.report(alert, now, wall, lasted[lead.sign])
        return True

    def _hold_s(self, pace: SteppingPace | None) -> float:
        """Return the seconds that a sign must last.

        If a log has few steps, a pause shows only when the next one is overdue.
        """
        return self._thresholds.hold_s if pace is None else max(self._thresholds.hold_s, pace.limit_s)


def unlike_peers(group: Sequence[GpuLoad], limits: Thresholds, *, steps: bool) -> Iterator[Outlier]:
    """Yield the outliers among the ranks of one job and GPU model.

    Args:
        group: All these ranks.
        limits: The thresholds of the hosts file.
        steps: Whether the job has made steps throughout the period of the means. A rank that saves or
            evaluates alone also works while the others wait; without steps only clocks and PCIe rates count.
    """
    yield from slow_clocks(group, limits.peer_clock_pct)
    yield from narrow_pcie(group, limits.peer_link_pct)
    if steps:
        yield from idle(group, limits.peer_busy_pct)
        yield from power(group, limits.peer_power_pct)
        yield from throughput(group, limits.peer_link_pct)
