"""A rank whose GPU the driver slows down while the steps of its job take longer.

Either fact alone needs time: a clock may drop for a moment, and a step may contain a pause. Together they
confirm each other, so the rank is named at once and not only after `hold_s`.

Example: 128 ranks, steps of 3.2 s. GPU 2 of gpu-006 reports `sw_thermal` and runs at 1,095 MHz, the others
run at 1,845 MHz; the last two steps took 4.5 and 4.8 s. `throttled_ranks` yields its rank: it slows all 128
ranks by 40 %, the shorter one of the two steps against the usual one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct

from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS, WORKING_PCT
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad
from gpuwatch.diagnose.straggler.outliers import Outlier, max_outliers
from gpuwatch.diagnose.straggler.slowdown_cause import throttled
from gpuwatch.diagnose.straggler.stepping_jobs import job_of
from gpuwatch.diagnose.training.throughput import SLOWER_FACTOR, step_s
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress

SLOW_STEPS, SLOW_S, MAX_SLOW_STEPS = 2, 5.0, 5
"""Least number of newest steps that must all be slow, their least total seconds, and their most number.

At most one step of a tick is reported, so that five of them also take five ticks.
"""
MIN_USUAL_STEPS, USUAL_STEPS = 20, 200
"""Least and most number of earlier steps from which the usual step time is computed."""
SLOWS = "slows all "
"""Start of the alert's text, whose subject is the rank."""
SLOWED = "slowed all "
"""The same once the job has stopped."""
TOOK = "a step takes "
TEXTS = {
    "hw_thermal": "thermal throttling by the hardware",
    "sw_thermal": "thermal throttling",
    "power_brake": "power brake",
    "hw_slowdown": "hardware slowdown",
}
"""Clock-event reason that slows a GPU below its settings -> name of the reason in the alert."""


class SlowedJob(Struct, frozen=True):
    """A job whose newest steps take longer than usual."""

    step_s: float
    """Seconds of the shortest of the newest steps."""
    usual_s: float
    """Mean seconds of the earlier steps, without pauses."""

    @property
    def by_pct(self) -> float:
        """Return how much longer a step takes, in percent of the usual time."""
        return 100.0 * (self.step_s / self.usual_s - 1.0)


def slowed_jobs(fleet: Fleet) -> dict[str, SlowedJob]:
    """Return job -> its slowdown, for jobs whose newest steps take SLOWER_FACTOR times as long as usual.

    If several ranks log steps, the one with the most steps counts.
    """
    writers: dict[str, RankProgress] = {}
    for writer in fleet.progress.writers.values():
        job = job_of(writer, fleet) if writer.stepped_live else None
        if job is not None and (job not in writers or len(writer.steps) > len(writers[job].steps)):
            writers[job] = writer
    slowdowns = {
        job: _slowdown(writer.step_times(MAX_SLOW_STEPS + USUAL_STEPS)) for job, writer in writers.items()
    }
    return {job: slowdown for job, slowdown in slowdowns.items() if slowdown is not None}


def _slowdown(times: Sequence[float]) -> SlowedJob | None:
    count = SLOW_STEPS
    while count < MAX_SLOW_STEPS and sum(times[-count:]) < SLOW_S:
        count += 1
    usual, newest = times[:-count], times[-count:]
    if len(usual) < MIN_USUAL_STEPS:
        return None
    found = SlowedJob(min(newest), step_s(usual))
    return found if found.usual_s > 0 and found.step_s >= SLOWER_FACTOR * found.usual_s else None


def throttled_ranks(
    group: Sequence[GpuLoad], ranks: int, slowed: SlowedJob | None, clock_pct: float
) -> Iterator[Outlier]:
    """Yield the ranks of a slowed job whose GPU is throttled and below `clock_pct` % of the median clock.

    Args:
        group: The ranks of the job with one GPU model; their newest values count, not means.
        ranks: Number of ranks of the whole job.
        slowed: Slowdown of the job; None yields nothing.
        clock_pct: Percent of the median clock below which a clock is low.
    """
    clocks = {
        each.info.uuid: each.fast.sm_clock_mhz
        for each in group
        if each.fast.sm_clock_mhz and (each.fast.utilization_pct or 0.0) >= WORKING_PCT
    }
    if slowed is None or len(clocks) < MIN_PEERS:
        return
    usual = median(clocks.values())
    low = [
        (each, clock, reason)
        for each in group
        if (clock := clocks.get(each.info.uuid, usual)) < usual * clock_pct / 100.0
        and (reason := throttled(each.fast, capped=False)[0]) in TEXTS
    ]
    if len(low) > max_outliers(len(clocks)):
        return
    for each, clock, reason in low:
        yield Outlier(
            "throttled", each.rank, len(clocks) - 1, "SM clock", f"{clock:,.0f} MHz", f"{usual:,.0f} MHz",
            f"{SLOWS}{ranks} ranks by {slowed.by_pct:.0f} %: {TEXTS[reason]}", load=each, alike=len(low),
            cause=f"{TOOK}{_digits(slowed.step_s)} s, usual {_digits(slowed.usual_s)} s",
        )  # fmt: skip


def _digits(seconds: float) -> str:
    """Return three digits, zeros included, so that the text keeps its width: `3.20`."""
    return f"{seconds:#.3g}".rstrip(".") if seconds < 999.5 else f"{seconds:.0f}"
