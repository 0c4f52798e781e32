"""Verdicts of dumps from running jobs, with the age of the dumps, and the ranks without one and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.flight_recorder.text import SAME_MOMENT
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.number_text import duration, plural

APART_S = 60.0
"""Dumps written further apart than this (seconds) may show a job that ran on in between."""
TOGETHER_S = 3.0
"""Dumps written within this time (seconds) are of the same moment."""
STEP_S = 2.0
"""Clocks of nodes and file servers differ by up to this (seconds)."""
SHOWN_REASONS = 6
NO_PIPES = (
    "dumps cannot be triggered: the job runs without TORCH_NCCL_DEBUG_INFO_PIPE_FILE; set this variable for "
    "its next start"
)


class DumpRead(Struct, frozen=True):
    """A flight-recorder dump that was fetched and read: its rank, node, path, size and time of writing."""

    rank: int
    node: str
    path: str
    size_bytes: int
    written_at: float
    """Unix seconds on our clock."""


class JobDumps(Struct, frozen=True):
    """The flight-recorder dumps of one job, why ranks have none, and the verdict on them."""

    job: str | None
    ranks: int
    """Number of ranks of the job, as far as is known."""
    read: tuple[DumpRead, ...]
    without: Mapping[int, str]
    """Rank -> why no dump of the rank was read."""
    asked: bool = False
    """True if gpuwatch triggered the dumps."""
    verdict: Verdict | None = None
    """The verdict on the dumps; None: no dump was read, or they are still being judged."""


class FlightEvidence(Struct, frozen=True):
    """The dumps of all jobs, jobs with a problem first, and where more dumps can be found or triggered."""

    jobs: tuple[JobDumps, ...] = ()
    may_write: tuple[int, ...] = ()
    """Ranks whose job has a dump pipe, so that fresh dumps can be triggered."""
    places: tuple[str, ...] = ()
    """Dump locations that the jobs configured; torch's defaults are left out."""

    @property
    def verdict(self) -> Verdict | None:
        """Return the first verdict among the jobs, for combination with other sources.

        None: there is none.
        """
        return next((each.verdict for each in self.jobs if each.verdict is not None), None)


def with_age(stated: Verdict, job: JobDumps) -> Verdict:
    """Return the verdict; its evidence also states the number and age of the dumps, and the missing ones.

    If the dumps were written more than APART_S apart, its confidence is low.
    """
    note = dumps_text(job)
    reasons = tuple(f"no dump of {line}" for line in reasons_text(job.without))
    if not stated.wrong:
        return replace(stated, note=note, evidence=(note, *stated.evidence, *reasons))
    apart = _apart_s(job.read)
    settle, confidence = stated.settle, stated.confidence
    if apart <= TOGETHER_S:
        settle = tuple(line for line in settle if line != SAME_MOMENT)
    if apart > APART_S:
        confidence = "low"
        settle = (
            f"new dumps: these were written {duration(apart)} apart, and the job may have run on between",
            *settle,
        )
    return replace(
        stated,
        note=note,
        confidence=confidence,
        evidence=(note, *stated.evidence, *reasons),
        settle=settle,
    )


def outlived(received: FlightEvidence, stepped: Mapping[str | None, float]) -> FlightEvidence:
    """Return the evidence; verdicts of dumps that are older than the job's last step get low confidence.

    Args:
        received: The verdicts of the dumps.
        stepped: Job -> when its log last reported a step, unix seconds on our clock.
    """
    jobs = [_outlived(job, stepped.get(job.job)) for job in received.jobs]
    return replace(received, jobs=tuple(jobs))


def _outlived(job: JobDumps, step: float | None) -> JobDumps:
    stated = job.verdict
    if stated is None or not stated.wrong or step is None:
        return job
    if step <= max(each.written_at for each in job.read) + STEP_S:
        return job
    late = f"these dumps are older than the job's last step at {clock(step)}: they may show an earlier hang"
    stated = replace(
        stated,
        confidence="low",
        evidence=(late, *stated.evidence),
        settle=("new dumps, or those of the next timeout", *stated.settle),
    )
    return replace(job, verdict=stated)


def dumps_text(job: JobDumps, now: float | None = None) -> str:
    """Return `3 of 4 dumps, written 12:03:11`; with `now` (unix seconds), also the age of the oldest."""
    count = f"{len(job.read)} of {plural(job.ranks, 'dump')}" if job.ranks else plural(len(job.read), "dump")
    if not job.read:
        return count
    first = min(each.written_at for each in job.read)
    last = max(each.written_at for each in job.read)
    moment = clock(last, now) if clock(first) == clock(last) else f"{clock(first, now)} to {clock(last, now)}"
    why = "triggered, " if job.asked else ""
    which = "" if clock(first) == clock(last) else "the first "
    age = f", {which}{duration(max(0.0, now - first))} ago" if now is not None else ""
    return f"{count}, {why}written {moment}{age}"


def reasons_text(without: Mapping[int, str]) -> list[str]:
    """Return lines such as `ranks 4-7: gpu-002 does not answer`; ranks with the same reason share a line.

    At most SHOWN_REASONS such lines; then one with the number of other reasons.
    """
    by_reason: dict[str, list[int]] = {}
    for rank, why in sorted(without.items()):
        by_reason.setdefault(why, []).append(rank)
    reported = [f"{ranks_text(ranks)}: {why}" for why, ranks in by_reason.items()]
    more = len(reported) - SHOWN_REASONS
    return [*reported[:SHOWN_REASONS], f"{more} more reasons"] if more > 0 else reported


def _apart_s(read: Sequence[DumpRead]) -> float:
    moments = [each.written_at for each in read]
    return max(moments) - min(moments) if moments else 0.0
