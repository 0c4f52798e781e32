"""Lowers errors after which a later attempt finished, or after which the rank stepped on and failed again."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from msgspec import structs

from gpuwatch.diagnose.error_outcome.recovery_by_steps import (
    Recovery,
    TrackIndex,
    later_marks,
    may_recover,
    softened,
)
from gpuwatch.diagnose.error_outcome.refutation import LASTING_CLASSES
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack, begins_anew
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import FINISHED, VALUES, of_kinds
from gpuwatch.diagnose.model.timing import attempt_of_path, run_of_path

RESTARTED = of_kinds("restart_heals")
"""Lasting faults whose line shows that a process ended; a restart that succeeds resolves them."""

JOB_FILE = re.compile(
    r"(?P<name>slurm-|\S{1,120}?(?:\.o|[-_.](?:job[-_]?)?(?=\d{5})))(?P<id>\d{2,12})(?P<rest>(?:\.(?:out|err|log|txt))?)"
)
"""Matches a batch job's output file with the scheduler's job number: `slurm-101.out`, `vit.o88123`."""


def with_later_attempts(alerts: Iterable[Alert], tracks: Sequence[StepTrack]) -> list[Alert]:
    """Return the alerts; errors of an attempt become `info` if a later attempt finished.

    Attempts are ordered by their folders (`attempt_0`, `attempt_1`), because lines may carry no time;
    batch jobs of one name by the job number in the file name.

    Args:
        alerts: The alerts, with those about the end of a job.
        tracks: The steps that ranks logged.
    """
    alerts = list(alerts)
    ends = [alert.proof[0].file or "" for alert in alerts if alert in FINISHED and alert.proof]
    ends += [track.file for track in tracks if track.complete]
    last: dict[str, int] = {}
    for file in ends:
        number = attempt_of_path(file)
        if number is not None:
            last[run_of_path(file)] = max(last.get(run_of_path(file), 0), number)
    alerts = [_of_attempt(alert, last) for alert in alerts] if last else alerts
    return _with_later_jobs(alerts, ends, tracks)


def _with_later_jobs(alerts: list[Alert], ends: Sequence[str], tracks: Sequence[StepTrack]) -> list[Alert]:
    """Return the alerts; those of a batch job become `info` if a later job of the same name finished."""
    begun: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
    for track in tracks:
        job = _job_of(track.file)
        began = track.marks[0].at if track.marks else None
        if job is not None and began is not None and track.file in ends:
            begun[job[0]].append((job[1], began))
    if not begun:
        return alerts
    last: dict[str, float] = {}
    for track in tracks:
        last[track.file] = max(track.marks[-1].at or 0.0 if track.marks else 0.0, last.get(track.file, 0.0))
    return [
        softened(alert, Recovery(None, None, finished=True)) if _is_of_earlier(alert, begun, last) else alert
        for alert in alerts
    ]


def _is_of_earlier(
    alert: Alert, begun: Mapping[tuple[str, ...], Sequence[tuple[int, float]]], last: Mapping[str, float]
) -> bool:
    file = alert.proof[0].file or "" if alert.proof else ""
    job = _job_of(file)
    if job is None or not may_recover(alert):
        return False
    over = max(alert.last if alert.timed else 0.0, last.get(file, 0.0))
    return any(number > job[1] and began > over for number, began in begun.get(job[0], ()))


def _job_of(file: str) -> tuple[tuple[str, ...], int] | None:
    """Return the key that the outputs of one script share (folder, name, ending), and the job number.

    None: the file name has no job number.
    """
    path = PurePath(file)
    found = JOB_FILE.fullmatch(path.name)
    if found is None:
        return None
    return (str(path.parent), found["name"], found["rest"]), int(found["id"])


def _of_attempt(alert: Alert, last: Mapping[str, int]) -> Alert:
    file = alert.proof[0].file or "" if alert.proof else ""
    number = attempt_of_path(file)
    if number is None or number >= last.get(run_of_path(file), 0) or not may_recover(alert):
        return alert
    return softened(alert, Recovery(None, None, finished=True))


def with_restarts(alerts: Iterable[Alert], tracks: Sequence[StepTrack]) -> list[Alert]:
    """Return the alerts; a device fault that ended a rank becomes a warning if the restarted rank finished.

    The device may fail again, but the job lost only the steps since its checkpoint.
    """
    index = TrackIndex(tracks)
    return [_restarted(alert, index) if _is_lasting_line(alert) else alert for alert in alerts]


def _is_lasting_line(alert: Alert) -> bool:
    return alert in RESTARTED and alert in LASTING_CLASSES and not alert.kernel and not alert.recovered


def _restarted(alert: Alert, index: TrackIndex) -> Alert:
    for track in index.of(alert):
        later = later_marks(alert, track)
        above = track.marks[: track.marks.index(later[0])] if later else []
        if later and track.complete and begins_anew([*above[-1:], later[0]]):
            return structs.replace(
                alert,
                severity="warning",
                recovered=True,
                recovered_at=later[0].at,
                recovered_step=later[0].step,
                text=f"{alert.text}; restarted, continued at step {later[0].step}",
            )
    return alert


def outlived_repeats(alerts: Sequence[Alert], tracks: Iterable[StepTrack]) -> list[Alert]:
    """Return the alerts; a repeated error gets a lower severity if its rank stepped between its occurrences.

    One step is enough: a buffer cannot have moved it there, because buffered output comes below the last
    exception.
    """
    marks = _tracks_by_file(tracks)
    lasts: dict[object, int] = {}
    for alert in alerts:
        who = _speaker(alert)
        lasts[who] = max(lasts.get(who, 0), alert.proof[0].offset or 0)
    found = []
    for alert in alerts:
        later = _between(alert, lasts[_speaker(alert)], marks) if _is_repeated(alert) else []
        recovery = Recovery(later[0].at, later[0].step, finished=False) if later else None
        found.append(alert if recovery is None else softened(alert, recovery))
    return found


def _is_repeated(alert: Alert) -> bool:
    return may_recover(alert) and alert not in VALUES


def _speaker(alert: Alert) -> object:
    proof = alert.proof[0]
    return alert.code, alert.rank, alert.job, proof.node, proof.file


def _tracks_by_file(tracks: Iterable[StepTrack]) -> dict[str, list[StepTrack]]:
    found: dict[str, list[StepTrack]] = defaultdict(list)
    for track in tracks:
        found[track.file].append(track)
    return found


def _between(alert: Alert, last: int, tracks: Mapping[str, Sequence[StepTrack]]) -> Sequence[Mark]:
    """Return the steps of the rank between an alert and offset `last` of its file.

    Empty if they do not advance.
    """
    proof = alert.proof[0]
    low = max(proof.offset or 0, alert.last_offset or 0)
    if low >= last:
        return []
    for track in tracks.get(proof.file or "", ()):
        if not (track.alone if None in (alert.rank, track.rank) else alert.rank == track.rank):
            continue
        begin = bisect_right(track.marks, low, key=_place)
        steps = track.marks[begin : bisect_left(track.marks, last, key=_place)]
        before = [mark.step for mark in track.marks[max(0, begin - 1) : begin]]
        if steps and all(steps[-1].step > step for step in before):
            return steps
    return []


def _place(mark: Mark) -> int:
    return mark.offset or 0
