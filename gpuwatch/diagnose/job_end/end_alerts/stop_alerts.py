"""The alert for a job that stopped before its announced end, without a line that explains it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from gpuwatch.diagnose.alerts.deduplication.unexplained import quoted
from gpuwatch.diagnose.error_outcome.recovery_by_steps import ends_process
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.job_end.closing import (
    NUMBER,
    ON_PURPOSE,
    LogEnd,
    below_steps,
    ends_with_failure,
    is_failed_end,
)
from gpuwatch.diagnose.job_end.job_end import JobEnd, is_failure
from gpuwatch.diagnose.job_end.planned_end import CANCELLED, CAUGHT_SIGTERM, INTERRUPTED
from gpuwatch.diagnose.job_end.training_tracks import is_run, main_tracks
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import LAUNCHER, QUIET_ALONE, SCHEDULER, TIMEOUTS
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.text import ranks_text

_WORD = re.compile(r"[^\W\d_]{3}")


def stop_alerts(
    end: JobEnd,
    tracks: Sequence[StepTrack],
    alerts: Iterable[Alert],
    closings: Mapping[str, LogEnd],
    *,
    beside_finished: bool = False,
) -> list[Alert]:
    """Return the alert (0 or 1) for a job that stopped before its announced end.

    Empty if a line explains the stop, or several ranks are behind. The rank that stopped first is a silent
    hang. If no rank stands out, or the others finished, the cause is unknown.

    Args:
        end: How the job ended.
        tracks: The steps of its ranks.
        alerts: The alerts from the lines of the job.
        closings: File -> how its log ends.
        beside_finished: True if other jobs beside it finished: its log is then no excerpt.
    """
    alerts = list(alerts)
    reported = any(
        alert in SCHEDULER
        or alert in CAUGHT_SIGTERM
        or alert in INTERRUPTED
        or (is_failure(alert) and alert not in QUIET_ALONE)  # what a survivor states is no cause
        for alert in alerts
    )
    if end.state != "stopped" or reported or len(end.behind) > 1:
        return []
    if end.behind:
        (rank,) = end.behind
        track = next(
            each for each in tracks if each.rank == rank and each.marks[-1].step == _step_of(end, rank)
        )
        code = UNKNOWN if end.finished else HANG
        return [_stop(end, track, closings, code, rank)]
    main = main_tracks(tracks)
    if not main:
        return []
    stopped = [each for each in main if each.node in dict(end.nodes)] or main
    closing = below_steps(stopped, closings)
    if any(ON_PURPOSE.search(line) and not is_failed_end(line) for line in closing):
        return []
    track = max(stopped, key=lambda each: each.marks[-1].step)
    found = _stop(end, track, closings, UNKNOWN)
    # A few lines may be an excerpt of a job that went on; no peer is lost in one.
    sure = (
        beside_finished or is_run(main) or ends_with_failure(main, closings) or any(map(is_failure, alerts))
    )
    return [found if sure else structs.replace(found, severity="warning")]


def with_stated_failure(end: JobEnd, alerts: Iterable[Alert], tracks: Sequence[StepTrack]) -> JobEnd:
    """Return how a job ended; `unknown` becomes `stopped` if a line states a failure that ended a process.

    It also does if a failure is later than the last steps of all ranks, or Slurm cancelled the job after one.

    Args:
        end: How the job ended, by the steps of the ranks and the last lines of their logs.
        alerts: The alerts from the lines of the job, with the severities that later lines gave them.
        tracks: The steps of the ranks.
    """
    if end.state != "unknown" or end.signal is not None:
        return end
    last = [track.marks[-1].at for track in main_tracks(tracks)]
    dated = [at for at in last if at is not None]
    until = max(dated) if dated and len(dated) == len(last) else math.inf
    alerts = list(alerts)
    cancelled = any(alert in CANCELLED for alert in alerts) and any(map(is_failure, alerts))
    ended = cancelled or any(
        alert.severity in GRAVE
        and not alert.recovered
        and (
            ends_process(alert)
            or alert in LAUNCHER | SCHEDULER | TIMEOUTS
            or (is_failure(alert) and alert.timed and alert.first > until)
        )
        for alert in alerts
    )
    return structs.replace(end, state="stopped") if ended else end


def _stop(
    end: JobEnd,
    track: StepTrack,
    closings: Mapping[str, LogEnd],
    code: str,
    rank: int | None = None,
) -> Alert:
    """Return the alert for a rank that stopped; `rank` None: for the job as a whole."""
    title, settle = "A rank stopped first", f"the last lines of rank {rank}, and its node's kernel log"
    if rank is None:
        title = "The log ends before the announced last step"
        settle = "the scheduler's record of the job, and the kernel logs of its nodes"
    mark = track.marks[-1]
    at = closings[track.file].at if mark.at is None else mark.at
    words = last_words(closings[track.file].lines, mark.step) if track.alone else None
    did = end.text.removeprefix(f"{ranks_text(end.behind)} ") if end.finished else end.text
    text = f"{did}; no line states why" if words is None else f"{did}; then {quoted(words)}"
    below = tuple(below_steps([track], closings)[1:])
    proof = Proof("line", text, at, mark.at is not None, track.node, track.file, mark.offset, (text, *below))
    return Alert(
        id=f"{code}@{track.file}:{rank}", code=code, severity="error", title=title, text=text,
        proof=(proof,), role="root", node=None if rank is None else track.node, rank=rank, job=track.job,
        first=at, last=at, timed=mark.at is not None,
        fields={"confidence": "medium", "settle": settle},
    )  # fmt: skip


def last_words(lines: Sequence[str], step: int) -> str | None:
    """Return the last line of a log, if it has words and follows the line of the last step; else None."""
    line = next((each for each in reversed(lines) if each.strip()), "")
    numbers = {number.replace(",", "") for number in NUMBER.findall(line)}
    reported = str(step) not in numbers or is_failed_end(line)
    return line if reported and _WORD.search(line) else None


def _step_of(end: JobEnd, rank: int) -> int:
    return next(each.step for each in end.ranks if each.rank == rank)
