"""Recovery by steps: if a rank logs later steps, or its job finishes, an error becomes `info`.

Pure functions over alerts and the steps that ranks logged. `scan` and the live alert book use the same ones.

Example: rank 2 logs an exception at 10:00:00 after step 40, then step 41 at 10:00:05 and step 42 at 10:00:09.
These are `PROOF_STEPS` later steps: `recovery_of` returns Recovery(at=10:00:05, step=41), and `softened`
makes the alert `info`. With step 41 alone it returns None, because the line may have been in the output
buffer of a rank that died.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from msgspec import structs

from gpuwatch.agent.logs.matching.event_form import has_given_up
from gpuwatch.diagnose.error_outcome.refutation import left_after, refutation_of
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack, begins_anew
from gpuwatch.diagnose.model.alert import OF_STEPS, Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, FINISHED, LAUNCHER, VALUES
from gpuwatch.wire import Severity

PROOF_STEPS = 2
"""Least later steps that prove recovery: one alone may come from the output buffer of a dead rank."""
BUFFER_BYTES = 8192
"""Size of the blocks in which Python writes its output to a file. Lines printed before an exception can
therefore stand below it; steps that carry no time prove nothing within this distance below a traceback."""
CLOCK_S = 1.0
"""Steps and errors closer than this (seconds) are not ordered by time."""
LEAVING_S = 10.0
"""Seconds for which a process that exits on an exception may still print."""
TRACEBACK = "Traceback (most recent call last)"


class Recovery(NamedTuple):
    """How the rank, file or job went on after an error: when, with which step, and whether it finished.

    Also whether a passed test caused the error on purpose (`staged`).
    """

    at: float | None
    """Unix seconds of the first later step, or of the end; None: undated."""
    step: int | None
    """The first later step; None: the job finished without logging one."""
    finished: bool
    staged: bool = False
    """True if a test caused the error on purpose and passed."""


def softened(alert: Alert, recovery: Recovery) -> Alert:
    """Return the alert as recovered: with lower severity, and the time and step of the recovery."""
    return structs.replace(
        alert,
        severity=severity_after(alert, recovery),
        recovered_at=recovery.at,
        recovered_step=recovery.step,
        recovered=True,
    )


def severity_after(alert: Alert, recovery: Recovery) -> Severity:
    """Return the severity of an alert after its recovery, mostly `info`; `REFUTATIONS` lists the others."""
    if recovery.staged:
        return "info"
    if refutation_of(alert).lasts:
        return "info"  # steps never resolve such an alert: the caller knows how it ended
    return left_after(alert, finished=recovery.finished)


def recovery_of(
    alert: Alert, tracks: Sequence[StepTrack], ends: Sequence[Alert], deaths: Sequence[Alert]
) -> Recovery | None:
    """Return how the rank, file or job went on after an alert; None: nothing shows that it did.

    Args:
        alert: An error, or a warning.
        tracks: The steps of the same rank, or of the same file if no rank is known.
        ends: Lines that state that a training finished.
        deaths: Alerts that show how processes ended.
    """
    end = next((each for each in ends if _follows(alert, each)), None)
    if end is not None and not _same_file_or_rank(alert, end) and any(_breaks_off(alert, t) for t in tracks):
        end = None  # another rank finished
    for track in tracks:
        later = later_marks(alert, track)
        if not _steps_on(alert, later):
            continue
        finished = end is not None or (track.complete and track.marks[-1] is later[-1])
        proves = _counts_anew(track, later) or _proves(alert, later, deaths)
        if finished or (proves and not _ended_somebody(alert, track)):
            return Recovery(later[0].at, later[0].step, finished)
    if end is not None and not any(_kills(each, alert, end) for each in deaths):
        return Recovery(end.first if end.timed else None, None, finished=True)
    return None


def job_went_on(alert: Alert, tracks: Iterable[StepTrack], deaths: Iterable[Alert]) -> Recovery | None:
    """Return how the whole job went on after an error without a rank; None: a rank may have ended by it.

    For lines in a launcher's log without steps: each rank that logs steps must do so `LEAVING_S` later, and
    none may have ended since.
    """
    if alert.rank is not None or alert.job is None or not alert.timed or alert in EXITS or alert in LAUNCHER:
        return None
    ends = (each for each in deaths if each in EXITS and each.job in (None, alert.job))
    if any(each.last >= alert.first - LEAVING_S for each in ends):
        return None
    found = []
    for track in tracks:
        if track.job == alert.job and track.marks:
            later = [mark for mark in track.marks if mark.at and mark.at > alert.last + LEAVING_S]
            if not _steps_on(alert, later):
                return None
            found.append(later[0])
    first = min(found, key=lambda mark: mark.at or 0.0, default=None)
    return None if first is None else Recovery(first.at, first.step, finished=False)


def files_of_namesakes(alert: Alert, tracks: Iterable[StepTrack]) -> frozenset[str]:
    """Return the logs of other jobs' ranks that have the number of the alert's rank and stepped on.

    Empty unless the alert's rank did not step on. A log in another folder with steps before and after the
    error is taken for another job's: the files of one process are in one folder, and a restarted rank logged
    nothing there before.

    `tracks`: those with the number of the alert's rank (`TrackIndex.of`).
    """
    tracks = list(tracks)
    file = alert.proof[0].file
    if not alert.timed or not any(track.file == file and _breaks_off(alert, track) for track in tracks):
        return frozenset()
    return frozenset(
        track.file
        for track in tracks
        if PurePath(track.file).parent != PurePath(file or "").parent
        and any(mark.at is not None and mark.at < alert.first - LEAVING_S for mark in track.marks[:1])
        and later_marks(alert, track)
    )


def later_marks(alert: Alert, track: StepTrack) -> list[Mark]:
    """Return the steps after the last line of an alert: below it in its own file, by time in others."""
    proof = alert.proof[0]
    same = (proof.file, proof.node or track.node) == (track.file, track.node or proof.node)
    offset = max((each.offset or 0 for each in alert.proof if each.file == track.file), default=0)
    offset = max(offset, alert.last_offset or 0)
    found = []
    above = None
    for mark in track.marks:
        dated = mark.at is not None and alert.timed
        if same and mark.offset is not None and mark.offset <= offset:
            above = mark.at
            continue
        below = same and mark.offset is not None
        if below and above is not None and mark.at is not None and mark.at < above - CLOCK_S:
            break  # the log of another rank or run that was pasted below this one
        if dated and mark.at is not None and mark.at < alert.last + (0 if below else CLOCK_S):
            continue
        if below or dated:
            found.append(mark)
    return found


def _breaks_off(alert: Alert, track: StepTrack) -> bool:
    """Return True if this is a track of the alert's rank, and no step follows the alert in it.

    False if the track is complete or has no steps, or if no last step is announced.
    """
    own = alert.rank is not None and track.rank == alert.rank and track.total_steps is not None
    return own and bool(track.marks) and not track.complete and not later_marks(alert, track)


def _steps_on(alert: Alert, later: Sequence[Mark]) -> bool:
    """Return True if at least PROOF_STEPS steps advance; for a numeric alert the last ones must be finite."""
    if alert in VALUES and not all(mark.finite for mark in later[-PROOF_STEPS:]):
        return False
    return len({mark.step for mark in later}) >= PROOF_STEPS and later[-1].step > later[0].step


def _counts_anew(track: StepTrack, later: Sequence[Mark]) -> bool:
    """Return True if the step number falls at the first later step, so that a new process logged it.

    False if steps count per epoch, or the track's rank is unknown.
    """
    above = [mark for mark in track.marks if mark.offset is not None and mark.offset < (later[0].offset or 0)]
    return not track.per_epoch and track.rank is not None and begins_anew([*above[-1:], later[0]])


def _proves(alert: Alert, later: Sequence[Mark], deaths: Sequence[Alert]) -> bool:
    """Return True if the later steps were printed after the alert, or the alert ended no process.

    Steps that were only flushed from the buffer of a dead process prove nothing.
    """
    if alert.timed and all(mark.at is not None for mark in later[:PROOF_STEPS]):
        return True
    if not alert.timed and alert.bound == "before":
        after = [mark for mark in later if mark.at is not None and mark.at > alert.first + LEAVING_S]
        if len(after) >= PROOF_STEPS:
            return True
    offset = max(alert.proof[0].offset or 0, alert.last_offset or 0)
    if later[-1].offset is not None and later[-1].offset - offset > BUFFER_BYTES:
        return True
    return not ends_process(alert) and not any(
        _same_file_or_rank(each, alert) for each in deaths if each.id != alert.id
    )


def _ended_somebody(alert: Alert, track: StepTrack) -> bool:
    """Return True if the error ended a process and the track is of no known rank."""
    return track.rank is None and has_given_up(alert.proof[0].text)


def _follows(alert: Alert, end: Alert) -> bool:
    """Return True if the end of the training came after an alert, from the same rank, file or job."""
    if not _same_file_or_rank(alert, end) and not _may_be_one_job(alert, end):
        return False
    proof, other = alert.proof[0], end.proof[0]
    known = alert.timed or alert.bound == "before"
    later_s = end.first - alert.last if known and end.timed else None
    if (proof.file, proof.node) == (other.file, other.node) and None not in (proof.offset, other.offset):
        below = (other.offset or 0) - max(proof.offset or 0, alert.last_offset or 0)
        if not ends_process(alert):
            return below > 0
        # A time that only bounds the alert's is no evidence about an end above it in the same file
        is_later = later_s is not None and later_s > LEAVING_S and (alert.timed or below > 0)
        return below > BUFFER_BYTES or is_later
    return later_s is not None and later_s > (LEAVING_S if ends_process(alert) else CLOCK_S)


def _kills(death: Alert, alert: Alert, end: Alert) -> bool:
    """Return True if a process of the alert's rank or file died, and `end` is not known to be later."""
    return death.id != alert.id and _same_file_or_rank(death, alert) and not _follows(death, end)


def _same_file_or_rank(one: Alert, other: Alert) -> bool:
    if one.rank is not None and other.rank is not None:
        unknown = None in (one.job, other.job) and one.proof[0].node == other.proof[0].node
        return one.rank == other.rank and (one.job == other.job or unknown)
    return one.proof[0].file == other.proof[0].file and one.proof[0].node == other.proof[0].node


def _may_be_one_job(alert: Alert, end: Alert) -> bool:
    """Return True if an alert and the end of a training may be of one job.

    True if they name the same job, or if a job and a rank are unknown and both lines are from one node.
    """
    if alert.job == end.job:
        return True
    unknown = None in (alert.job, end.job) and None in (alert.rank, end.rank)
    return unknown and alert.proof[0].node == end.proof[0].node


def may_recover(alert: Alert) -> bool:
    """Return True if a later step of the alert's rank can lower the severity of the alert."""
    return alert.severity != "info" and not lasts(alert)


def lasts(alert: Alert) -> bool:
    """Return True if no later step resolves the alert.

    It is a lasting fault, of the kernel, no log line, about the steps, a report of success, or recovered
    already.
    """
    line = bool(alert.proof) and alert.proof[0].kind == "line" and alert.proof[0].offset is not None
    if alert.kernel or not line or alert in FINISHED or alert.recovered or OF_STEPS in alert.fields:
        return True
    return refutation_of(alert).lasts


def ends_process(alert: Alert) -> bool:
    """Return True if the alert shows the end of a process: an exit, or an exception with a traceback."""
    return alert in EXITS or any(TRACEBACK in line for proof in alert.proof[:1] for line in proof.lines)


class TrackIndex:
    """Finds the step tracks of an alert, by its rank or its file."""

    def __init__(self, tracks: Sequence[StepTrack]) -> None:
        self._rank: dict[int, list[StepTrack]] = {}
        self._file: dict[str, list[StepTrack]] = {}
        for track in tracks:
            self._file.setdefault(track.file, []).append(track)
            if track.rank is not None:
                self._rank.setdefault(track.rank, []).append(track)

    def of(self, alert: Alert) -> list[StepTrack]:
        """Return the tracks of the alert's rank.

        If the rank is unknown, return the tracks of the alert's file; if the rank logs no steps, the tracks
        of that file that belong to no rank.
        """
        here = [
            track
            for track in self._file.get(alert.proof[0].file or "", ())
            if alert.proof[0].node in (None, track.node) or track.node is None
        ]
        if alert.rank is None:
            return here
        ranks = self._rank.get(alert.rank, [])
        own = [track for track in ranks if track in here or _of_same_job(alert, track, ranks)]
        return own or [track for track in here if track.rank is None and track.alone]


def _of_same_job(alert: Alert, track: StepTrack, namesakes: Sequence[StepTrack]) -> bool:
    """Return True if a track with the alert's rank number belongs to the alert's job.

    The steps of another job are no evidence. Equal jobs, or both unknown: True. Only the alert's is known:
    True if no track of `namesakes` has a job. Only the track's is known: True if all of `namesakes` are on
    the alert's node and have no second job.

    `namesakes`: all tracks with this rank number.
    """
    if alert.job == track.job:
        return True
    jobs = {each.job for each in namesakes} - {None}
    if alert.job is not None:
        return track.job is None and not jobs
    nodes = {alert.node, alert.proof[0].node} - {None}
    return len(jobs) == 1 and track.node in nodes and all(each.node == track.node for each in namesakes)
