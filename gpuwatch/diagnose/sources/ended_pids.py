"""Assigns reports about ended processes to the ranks and jobs of their pids. Pure.

Example: the kernel logs `Xid ... 31, pid=1437` and torchrun's table `rank : 1, exitcode : -6 (pid: 1437)` on
the same node in the same second. The process is gone by then; the table records that it was rank 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.model.alert import OF_ENDED_JOB, Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    KERNEL_LINES,
    LAUNCHER,
    LAUNCHER_KILLED,
    STOPS_RANKS,
    of_kinds,
)
from gpuwatch.fleet.jobs.places import RankPlace

SAME_END_S = 120.0
"""Most seconds between two reports about one process; later the pid may be in use by another one."""
STARTED_S = 10.0
"""Seconds by which start times may be off; a restarted rank is no older than the end before it."""
BY_SIGNAL = of_kinds("by_signal")
"""Classes of ends by a signal, which a shell reports with the pid of the process that it started."""


def with_ended_pids(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts; kernel alerts about the process of an ended rank get its rank and job."""
    alerts = list(alerts)
    ends = {
        (alert.node, alert.fields["pid"]): alert
        for alert in alerts
        if alert in EXITS and alert.rank is not None and isinstance(alert.fields.get("pid"), int)
    }
    return [_with_rank(alert, ends.get((alert.node, alert.fields.get("pid", "")))) for alert in alerts]


def _with_rank(alert: Alert, end: Alert | None) -> Alert:
    if end is None or alert.rank is not None or alert not in KERNEL_LINES:
        return alert
    if not end.first - SAME_END_S <= alert.last <= end.last + SAME_END_S:
        return alert
    return structs.replace(alert, rank=end.rank, rank_from="field", job=alert.job or end.job)


def with_launcher_ends(alerts: Sequence[Alert], places: Iterable[RankPlace]) -> list[Alert]:
    """Return the alerts; an end by a signal becomes a launcher's end if a launcher has the pid in the line.

    Example: a shell prints `train.sh: line 3: 4711 Killed torchrun ...`, and the ranks below it train on.

    `places`: where the ranks run.
    """
    stated = [alert for alert in alerts if alert in BY_SIGNAL and isinstance(alert.fields.get("pid"), int)]
    if not stated:
        return list(alerts)
    jobs: dict[tuple[str | None, object], str | None] = {
        (place.node, place.launcher): place.job for place in places if place.launcher is not None
    }
    jobs.update((_process(alert), alert.job) for alert in alerts if alert.code == LAUNCHER_KILLED)
    return [
        _of_launcher(alert, jobs[key])
        if alert in BY_SIGNAL and alert.rank is None and (key := _process(alert)) in jobs
        else alert
        for alert in alerts
    ]


def _process(alert: Alert) -> tuple[str | None, object]:
    return alert.node, alert.fields.get("pid")


def _of_launcher(alert: Alert, job: str | None) -> Alert:
    text = f"the shell reports the end of a launcher, pid {alert.fields['pid']}"
    return structs.replace(
        alert, code=LAUNCHER_KILLED, severity="error", title="A launcher was killed", text=text, job=job
    )


def without_foreign_ends(alerts: Sequence[Alert], places: Iterable[RankPlace]) -> list[Alert]:
    """Return the alerts; an end of a process that is not of the alert's job gets an unknown job and rank.

    Example: two jobs append to one log and one of them has ended. The launcher's table names a pid, and every
    rank of the other job, which the file is known to belong to, still runs as another process. `places`:
    where the ranks run.
    """
    of_job: dict[str | None, list[RankPlace]] | None = None
    found = []
    for alert in alerts:
        about_end = alert in EXITS or alert in LAUNCHER or alert in STOPS_RANKS
        pid = alert.fields.get("pid")
        if about_end and alert.job is not None and isinstance(pid, int) and not alert.kernel:
            of_job = _by_job(places) if of_job is None else of_job
            if _is_of_another(alert, pid, of_job.get(alert.job, ())):
                fields = {**alert.fields, OF_ENDED_JOB: 1}
                unplaced = structs.replace(alert, job=None, rank=None, rank_from=None, gpu=None)
                found.append(structs.replace(unplaced, fields=fields))
                continue
        found.append(alert)
    return found


def _by_job(places: Iterable[RankPlace]) -> dict[str | None, list[RankPlace]]:
    found: dict[str | None, list[RankPlace]] = defaultdict(list)
    for place in places:
        found[place.job].append(place)
    return found


def _is_of_another(alert: Alert, pid: int, ranks: Sequence[RankPlace]) -> bool:
    """Return True if the whole job ran before this end, still runs, and none of its ranks had this pid."""
    world = {place.world_size for place in ranks}
    return world == {len(ranks)} and all(
        place.until is None
        and pid not in (None, place.pid, place.inner_pid)
        and place.started is not None
        and place.started < alert.first - STARTED_S
        for place in ranks
    )
