"""Groups alerts that belong together: one job, one attempt, one period of time. Pure.

Example: rank 3 of job 4711 runs out of memory at 10:00:00, ranks 0 to 2 lose their peer at 10:00:02, and the
launcher reports an exit at 10:00:30: one group. It restarts the ranks, and rank 3 runs out of memory at
10:09:00: another group, of attempt 1. An Xid of a node that job 4711 shares goes to the group that failed
within `GAP_S` of it. A group of nothing but warnings is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.diagnose.incidents.causes.alert_job import (
    GAP_S,
    is_log_line,
    likely_job,
    own_job,
    start_times,
    when,
)
from gpuwatch.diagnose.incidents.causes.attempt_numbers import AttemptNumbers
from gpuwatch.diagnose.incidents.causes.resumptions import went_on_at
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    FILE_SYSTEMS,
    PEER_CONNECTION_ERRORS,
    PRECURSORS,
    QUIET_ALONE,
    REBOOTED,
    explains,
    of_kinds,
)
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.timing import (
    APART_S,
    Resumed,
    Resumption,
    attempt_of_path,
    attempts_end,
    bounds,
    onset,
    sure,
    with_resumptions,
)

OUTAGE_S = 1800.0
"""Seconds for which a file system counts as lost after a report.

A server may evict a client minutes later.
"""
NOTHING: Resumed = {}
MIN_LOST = 2
"""Processes that lose a peer for this to be a failure by itself."""
ATTEMPT_BEGINS_S = 2.0
"""A process that was just started logs no failure of a training sooner (seconds)."""
ANY_PROCESS = of_kinds("any_process")
"""Classes about a process that, in a line of the kernel, may be of any user."""
BLOCKED_TASK = of_kinds("blocked_task")
DISTRIBUTED = of_kinds("distributed")
"""Classes of lines that only a multi-process job prints."""
RAISED = re.compile(r"^[^A-Za-z]*(?:\[rank\d+\]: *)?(?:[A-Za-z][\w.]*)?Error: ", re.IGNORECASE)
"""Matches the last line of a traceback."""


@dataclass
class AlertGroup:
    """Alerts that form one incident: of one job and attempt, from `begin` to `end` (unix seconds)."""

    job: str | None
    alerts: list[Alert] = field(default_factory=list)
    attempt: int = 0
    begin: float = 0.0
    end: float = 0.0
    starts: tuple[float, ...] = ()
    """When the attempts of its job began (unix seconds), as far as is known."""

    def same_attempt(self, one: Alert, other: Alert) -> bool:
        """Return True if no attempt began between two alerts.

        A start up to `APART_S` before the earlier alert counts as between; one less than `ATTEMPT_BEGINS_S`
        before the later alert does not.
        """
        low, high = sorted((one.first, other.first))
        return not any(low <= start + APART_S and start + ATTEMPT_BEGINS_S < high for start in self.starts)

    def add(self, alert: Alert) -> None:
        """Add an alert; extend the group's period by its onset and the time of its line."""
        began = onset(alert)
        self.begin = min(self.begin, began) if self.alerts else began
        self.end = max(self.end, alert.first) if self.alerts else alert.first
        self.alerts.append(alert)


def groups(alerts: Sequence[Alert], where: RankIndex, resumed: Resumed = NOTHING) -> list[AlertGroup]:
    """Return every group that forms an incident, by its begin. `resumed`: job -> when it resumed training."""
    partners = [alert for alert in alerts if _joins(alert)]
    limits = bounds(partners)
    partners = [_bounded(alert, limits[alert.id][1]) for alert in partners]
    own = {alert.id: own_job(alert, where) for alert in partners}
    reported = start_times(partners, own)
    by_job: dict[object, list[Alert]] = defaultdict(list)
    without_job: list[Alert] = []
    for alert in partners:
        job = own[alert.id] or likely_job(alert, reported, where)
        (without_job if job is None else by_job[job]).append(alert)
    found: list[AlertGroup] = []
    for job_name, members in by_job.items():
        found += _in_time(str(job_name), members, limits, resumed.get(str(job_name), ()))
    found += _without_job(_added_to_groups(without_job, found, where), limits)
    return sorted((group for group in found if _worth_it(group, where)), key=lambda group: group.begin)


def _bounded(alert: Alert, latest: float) -> Alert:
    """Return the alert; if its line has no time, dated no later than `latest` (unix seconds)."""
    if alert.timed or latest >= alert.first:
        return alert
    return structs.replace(alert, first=latest, last=latest)


def _joins(alert: Alert) -> bool:
    return alert.severity != "info" or alert.role in ("echo", "hint")


def _worth_it(group: AlertGroup, where: RankIndex) -> bool:
    """Return True if a group has a failure: not only warnings, hints and what a normal end prints too."""
    return (
        _thrown_out(group)
        or _lost_by_several(group)
        or any(
            alert.severity in ("error", "critical")
            and alert.role != "hint"
            and not is_precursor(alert)
            and alert not in QUIET_ALONE
            and not (alert.kernel and alert.rank is None and alert in ANY_PROCESS)
            and (
                alert.code not in ("node_lost", REBOOTED)
                or len(group.alerts) > 1
                or bool(where.on(alert.node))
            )
            for alert in group.alerts
        )
    )


def is_precursor(alert: Alert) -> bool:
    """Return True if the alert is of a kind that usually passes, did not last, and ended no process."""
    return alert in PRECURSORS and "lasts" not in alert.fields and alert.severity in ("info", "warning")


def _thrown_out(group: AlertGroup) -> bool:
    """Return True if an alert of a known rank, above info, is an exception about a lost peer."""
    raised = {
        alert.rank
        for alert in group.alerts
        if alert in PEER_CONNECTION_ERRORS
        and alert in QUIET_ALONE
        and alert.severity != "info"
        and alert.proof
        and RAISED.search(alert.proof[0].text)
    }
    return len(raised - {None}) > 0


def _lost_by_several(group: AlertGroup) -> bool:
    """Return True if several processes log a lost peer as an error, and none of them went on.

    At a regular end, processes that are late log it with a milder level, or one of them does.
    """
    lost = [
        alert
        for alert in group.alerts
        if alert in PEER_CONNECTION_ERRORS
        and alert.severity in ("error", "critical")
        and alert.state == "firing"
        and not alert.recovered
        and alert.proof
        and own_level(alert.proof[0].text) in GRAVE
    ]
    return len({alert.proof[0].file if alert.rank is None else alert.rank for alert in lost}) >= MIN_LOST


def _in_time(
    job: str | None,
    alerts: Sequence[Alert],
    limits: dict[str, tuple[float, float]],
    resumed: Sequence[Resumption] = (),
) -> list[AlertGroup]:
    """Split a job's alerts at gaps of GAP_S, at new attempts, and where all failed ranks had resumed."""
    ends = with_resumptions(attempts_end(alerts), resumed, alerts)
    starts = tuple(each.began for each in resumed)
    certain = [alert for alert in alerts if sure(limits[alert.id])]
    numbers = AttemptNumbers(certain, ends)
    found: list[AlertGroup] = []
    open_by_attempt: dict[int, AlertGroup] = {}
    for alert in sorted(certain, key=lambda each: (onset(each), each.id)):
        number = numbers.of(alert)
        group = open_by_attempt.get(number)
        apart = group is not None and onset(alert) > group.end + GAP_S and not _goes_on(group, alert)
        if group is None or apart or _is_past(group, alert):
            group = AlertGroup(job, attempt=number, starts=starts)
            open_by_attempt[number] = group
            found.append(group)
        group.add(alert)
    subjects = {id(group): _Subjects(group.alerts) for group in found}
    for alert in (each for each in alerts if not sure(limits[each.id])):
        low, high = limits[alert.id]
        fitting = [group for group in found if group.begin <= high + GAP_S and group.end >= low - GAP_S]
        number = numbers.of(alert)
        same = [group for group in fitting if group.attempt == number]
        if same or (fitting and attempt_of_path(alert.proof[0].file or "") is None):
            same = same or fitting
            own = [group for group in same if subjects[id(group)].have(alert)]
            group = (own or same)[-1]
            group.alerts.append(alert)
            subjects[id(group)].add(alert)
        else:
            found.append(AlertGroup(job, [alert], number, alert.first, alert.first, starts))
            subjects[id(found[-1])] = _Subjects([alert])
    return found


def _is_past(group: AlertGroup, alert: Alert) -> bool:
    """Return True if all failed ranks of a group had resumed before this error happened."""
    if alert.severity not in ("error", "critical"):
        return False
    over = went_on_at(group.alerts)
    return over is not None and onset(alert) > over + APART_S


def _goes_on(group: AlertGroup, alert: Alert) -> bool:
    """Return True if the alert continues an outage of the group's file system.

    The kernel of the same node reports the same file system again, or a task that waits for it.
    """
    return any(
        each.node == alert.node
        and onset(alert) - each.last < OUTAGE_S
        and each in FILE_SYSTEMS
        and (each.code == alert.code or (alert in BLOCKED_TASK and explains(each, alert)))
        for each in group.alerts
    )


class _Subjects:
    """The places that a group of alerts is about: ranks of its errors, nodes of its kernel reports."""

    def __init__(self, alerts: Iterable[Alert]) -> None:
        self._ranks: set[int | None] = set()
        self._nodes: set[str | None] = set()
        for alert in alerts:
            self.add(alert)

    def add(self, alert: Alert) -> None:
        """Add an alert's rank, and the node of one of the kernel; warnings and information are ignored."""
        if alert.severity not in ("error", "critical"):
            return
        self._ranks.add(alert.rank)
        if alert.kernel and alert.rank is None:
            self._nodes.add(alert.node)

    def have(self, alert: Alert) -> bool:
        """Return True if the group has an error of the same rank, or a kernel report of its node."""
        reported = alert.node is not None and alert.node in self._nodes
        return reported or (alert.rank is not None and alert.rank in self._ranks)


def _added_to_groups(without_job: list[Alert], found: list[AlertGroup], where: RankIndex) -> list[Alert]:
    """Add events of shared nodes to the group of the job that failed then; return the remaining alerts."""
    left = [alert for alert in without_job if is_log_line(alert)]
    for alert in (each for each in without_job if not is_log_line(each)):
        began = onset(alert)
        jobs = {
            place.job
            for place in where.on(alert.node, at=when(alert))
            if not where.claimants.is_doubtful(place.node, place.job)
        }
        near = [
            group
            for group in found
            if group.job in jobs and group.begin - GAP_S <= began <= group.end + GAP_S
        ]
        if near:
            min(near, key=lambda group: abs(group.begin - began)).alerts.append(alert)
        else:
            left.append(alert)
    return left


def _of_a_job(alert: Alert) -> bool:
    """Return True if only a multi-process job can have logged this: a rank, or its launcher about it."""
    distributed = alert in DISTRIBUTED
    return not alert.kernel and (alert.rank is not None or distributed)


def _without_job(alerts: list[Alert], limits: dict[str, tuple[float, float]]) -> list[AlertGroup]:
    """Group the alerts of unknown jobs: by time if one is of a multi-process job, else by node and time.

    Lines of a file without a node belong to the node that a line of the same file names.
    """
    if any(_of_a_job(alert) for alert in alerts):
        return _in_time(None, alerts, limits)
    named: dict[str | None, set[str]] = defaultdict(set)
    for alert in alerts:
        if alert.node is not None:
            named[alert.proof[0].file].add(alert.node)
    by_node: dict[str | None, list[Alert]] = defaultdict(list)
    for alert in alerts:
        others = named.get(alert.proof[0].file, set()) if alert.proof[0].file else set()
        node = next(iter(others)) if alert.node is None and len(others) == 1 else alert.node
        by_node[node].append(alert)
    return [group for members in by_node.values() for group in _in_time(None, members, limits)]
