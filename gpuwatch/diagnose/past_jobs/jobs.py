"""Finds recently ended jobs from the logs on the nodes, and how they ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.hang.silence.stepless_jobs import restarts_of
from gpuwatch.diagnose.incidents.causes.alert_job import GAP_S
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.job_end.end_alerts.stop_alerts import stop_alerts
from gpuwatch.diagnose.job_end.job_end import JobEnd, job_end
from gpuwatch.diagnose.job_end.training_tracks import main_tracks
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import LAUNCHES_RANKS
from gpuwatch.diagnose.model.timing import attempt_of_path
from gpuwatch.diagnose.past_jobs.last_words import ranks_with_last_words
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.ended_files import is_ended, project_of
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.fleet.jobs.slurm_tasks import are_whole
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import LogFile, Process

ENDED_S = 6 * 3600.0
"""Seconds since its last line after which an ended job is not reported (agents search back as far)."""


class EndedJob(Struct, frozen=True):
    """A job of which no process is left: its nodes, ranks, logs, last line, and how it ended."""

    name: str
    nodes: tuple[str, ...]
    """Nodes with logs of the job, then the nodes where its ranks ran."""
    ranks: tuple[int, ...]
    files: tuple[tuple[str, str], ...]
    """(node, path) of its logs."""
    last: float
    """Time of the last line of the job's logs (unix seconds on our clock)."""
    end: JobEnd
    searched: bool
    """True if all logs of the job have been searched."""
    attempt: int | None = None
    """Number of the last attempt that logged steps, where log folders show it."""
    superseded: bool = False
    """True if the job's user later started a job of the same project on one of its nodes.

    The user then knows that the job ended.
    """
    last_words: tuple[int, ...] = ()
    """The only rank that logged its own work after the last step of all; empty: none, or several."""


def ended_jobs(
    fleet: Fleet, alerts: Iterable[Alert], places: Places, now: float, wall: float
) -> list[tuple[EndedJob, list[Alert]]]:
    """Return every job that ended within ENDED_S, newest first, with the alerts of an early end.

    Args:
        fleet: All that is known now.
        alerts: All alerts.
        places: Where ranks run and ran.
        now: Monotonic seconds, the clock of the fleet's steps.
        wall: Unix seconds at the same moment.
    """
    members: dict[str, list[tuple[Node, LogFile]]] = {}
    for node in fleet.nodes.values():
        for file in node.logs:
            if is_ended(file) and file.job is not None and not _may_be_written(node, file, fleet):
                members.setdefault(file.job, []).append((node, file))
    alerts = list(alerts)
    ran: dict[str | None, list[RankPlace]] = {}
    for place in places.ranks:
        ran.setdefault(place.job, []).append(place)
    found = []
    for name, files in members.items():
        last = max(_last(node, file) for node, file in files)
        if wall - last <= ENDED_S:
            own = [alert for alert in alerts if alert.job == name]
            job, stops = _ended(name, files, own, fleet, ran.get(name, []), wall - now)
            if any(_may_explain(alert, job) for alert in alerts):
                stops = [structs.replace(alert, role="echo") for alert in stops]
            found.append((job, stops))
    return sorted(found, key=lambda each: (-each[0].last, each[0].name))


def _ended(
    name: str,
    files: Sequence[tuple[Node, LogFile]],
    alerts: Sequence[Alert],
    fleet: Fleet,
    ran: Sequence[RankPlace],
    offset_s: float,
) -> tuple[EndedJob, list[Alert]]:
    last = max(_last(node, file) for node, file in files)
    places = {(node.name, file.path) for node, file in files}
    writers = [
        each for each in fleet.progress.writers.values() if (each.node, each.file) in places and each.curve()
    ]
    tracks = [_track(each, name, offset_s) for each in writers]
    closings = {file.path: LogEnd(_last(node, file), file.last_lines) for node, file in files}
    searched = all(file.searched_to is not None or file.state == "elsewhere" for _, file in files)
    end = job_end(tracks, alerts, closings, growing=False, settled=searched, whole=True)
    reported = [alert for alert in alerts if not alert.id.startswith(_MARK)]
    stops = stop_alerts(end, tracks, reported, closings) if searched else []
    ranks = {rank for _, file in files for rank in file.ranks} | {place.rank for place in ran}
    ranks |= {track.rank for track in tracks if track.rank is not None} or _tasks(writers, alerts)
    numbers = [attempt_of_path(track.file) for track in tracks if track.marks]
    job = EndedJob(
        name,
        tuple(
            dict.fromkeys([*(node.name for node, _ in files), *(place.node for place in ran if place.node)])
        ),
        tuple(sorted(ranks)),
        tuple(sorted(places)),
        last,
        end,
        searched,
        max((number for number in numbers if number is not None), default=None),
        any(_started_later(name, node, [file for _, file in files], last) for node, _ in files),
        ranks_with_last_words(main_tracks(tracks), closings),
    )
    return job, [structs.replace(alert, id=f"{_MARK}{alert.id}", job=name) for alert in stops]


def _tasks(writers: Iterable[RankProgress], alerts: Iterable[Alert]) -> set[int]:
    """Return the Slurm task numbers in line prefixes, if tasks are ranks; else an empty set.

    They are ranks if there are several, numbered from 0 without a gap, and no launcher of ranks logs there.
    """
    tasks = {task for writer in writers for task in writer.tasks}
    launched = any(alert in LAUNCHES_RANKS for alert in alerts)
    return tasks if are_whole(tasks) and not launched else set()


def _may_explain(alert: Alert, job: EndedJob) -> bool:
    """Return True if the kernel of one of the job's nodes reported a fault at about the time of its end."""
    grave = alert.severity in ("error", "critical") and alert.role != "hint"
    near = job.last - GAP_S <= alert.first <= job.last + GAP_S
    return alert.kernel and grave and near and alert.node in job.nodes


_MARK = "ended "
"""Prefix of the ids of early-end alerts."""


def _track(writer: RankProgress, job: str, offset_s: float) -> StepTrack:
    marks = [
        Mark(
            step.step,
            step.at + offset_s if math.isfinite(step.at) else None,
            None,
            all(value is None or math.isfinite(value) for value in (step.loss, step.grad_norm)),
        )
        for step in writer.curve()
    ]
    total = writer.value("total_steps")
    whole = None if total is None else int(total)
    return StepTrack(writer.node, writer.file, writer.rank, job, marks, whole, per_epoch=writer.per_epoch)


def _last(node: Node, file: LogFile) -> float:
    """Return the time of a file's last line (unix seconds on our clock)."""
    return (file.last_at or 0.0) - node.offset_s


def _may_be_written(node: Node, file: LogFile, fleet: Fleet) -> bool:
    """Return True if a running rank of another node may write a file of a shared file system.

    The agent of the file's own node has checked which of its processes have it open. A rank that is known to
    write other files does not write it.
    """
    return file.identity is not None and any(
        process.rank is not None
        and (not process.logs or file.path in process.logs)
        and (process.start is None or process.start - other.offset_s <= _last(node, file))
        for other in fleet.nodes.values()
        if other is not node
        for process in other.processes
    )


def _started_later(name: str, node: Node, files: Sequence[LogFile], last: float) -> bool:
    """Return True if a rank of the same user and project was started on the node after `last` (unix seconds).

    A job in another folder does not show that its user knows of the end, nor does an attempt that its
    launcher started by itself. A rank without logs is of the project if it has the job's name, or if its
    command names a file there.
    """
    owners = {file.owner for file in files}
    logs = {file.path: project_of(home(file.path)) for file in files}
    return any(
        process.rank is not None
        and restarts_of(process) == 0
        and process.user in owners
        and process.start is not None
        and process.start - node.offset_s > last
        and (process.job == name or any(share_project(path, logs) for path in own_paths(process)))
        for process in node.processes
    )


def own_paths(process: Process) -> list[str]:
    """Return the logs of a process; without any, the absolute paths of files in its command."""
    words = (process.command or "").split() if not process.logs else []
    return [*process.logs, *(word for word in words[1:] if word.startswith("/"))]


def share_project(path: str, logs: Mapping[str, str]) -> bool:
    """Return True if a log is in the project folder of one of `logs`, or the reverse.

    `logs`: log file -> its project folder.
    """
    project = f"{project_of(home(path))}/"
    return any(
        f"{path}/".startswith(f"{place}/") or f"{log}/".startswith(project) for log, place in logs.items()
    )
