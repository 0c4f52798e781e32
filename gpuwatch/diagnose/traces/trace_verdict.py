"""Flags from measured traces: exposed communication, uneven ranks, a waiting GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from msgspec import Struct

from gpuwatch.diagnose.model.verdict import Confidence
from gpuwatch.diagnose.playbook.topics import steps_of
from gpuwatch.runs.traces.rank_profile import RankProfile

MAX_COMMUNICATION_TO_COMPUTE = 0.3
"""Ratio above which communication counts as high; the limit of common guides to distributed training."""
MAX_IMBALANCE = 0.1
"""(max - min) / mean of the ranks' computation above which it is flagged, as on screen 6."""
MAX_IDLE_SHARE = 0.3
"""Idle share above which a GPU waits for its program: launches, data or synchronisation."""
MIN_RANKS_COMPARED = 2
MIN_DIFFERENCE_SHARE = 0.01
"""Share of the trace's span; a smaller difference in computation names no rank."""
MIN_DIFFERENCE_MS = 0.5
"""Milliseconds over the whole trace; launches alone vary by as much."""
WAITING_MARGIN = 0.1
"""Share of the difference in computation; a smaller difference in waiting proves nothing about a rank."""


class RankSpread(Struct, frozen=True):
    """Mean, deviation and extremes of one quantity over the ranks, in milliseconds."""

    mean: float
    std: float
    least: float
    most: float
    least_label: str
    most_label: str

    @property
    def imbalance(self) -> float | None:
        """Return (max - min) / mean; None if the mean is 0."""
        return (self.most - self.least) / self.mean if self.mean else None


class TraceFlag(Struct, frozen=True):
    """A problem in the traces of one rank: code, text, value, limit and next steps."""

    code: str
    rank: int | None
    label: str
    text: str
    value: float
    limit: float | None
    """The limit that is exceeded; None: the problem has no limit."""
    actions: tuple[str, ...]


class SectionSpread(Struct, frozen=True):
    """The durations of one section: the sum over all ranks, and the spread of the ranks' means per pass."""

    name: str
    total_ms: float
    """Sum over all ranks."""
    spread: RankSpread


class TraceVerdict(Struct, frozen=True):
    """The spreads of computation and communication over the ranks, the straggler, and the problems."""

    flags: tuple[TraceFlag, ...]
    compute: RankSpread | None
    """The spread of the ranks' computation; None: fewer than two comparable ranks."""
    communication: RankSpread | None
    straggler: RankProfile | None
    confidence: Confidence | None
    """Confidence in the straggler; `high`: it also waits least in the collectives."""
    doubt: str | None = None
    """Why no rank is named although the computation of the ranks differs."""


def judge_traces(profiles: Sequence[RankProfile]) -> TraceVerdict:
    """Return the verdict on the ranks of one job; if some have GPU events, only those are compared.

    Traces that are cut off are not compared.
    """
    whole = [each for each in profiles if not each.trace.cut_off]
    peers = [each for each in whole if each.breakdown.basis == "gpu"] or whole
    compute = _spread(peers, lambda each: each.compute_per_step_ms)
    communication = _spread(peers, lambda each: each.waiting_per_step_ms)
    imbalance = compute.imbalance if compute is not None else None
    most = max(peers, key=lambda each: each.compute_per_step_ms, default=None)
    if compute is None or imbalance is None or most is None or not _lies_apart(compute, most):
        return TraceVerdict(_of_each(profiles, None), compute, communication, None, None)
    others, of = [each for each in peers if each is not most], per_step(peers)
    ahead_ms = most.compute_per_step_ms - mean(each.compute_per_step_ms for each in others)
    waits_less_ms = mean(each.waiting_per_step_ms for each in others) - most.waiting_per_step_ms
    waits_least = waits_less_ms > WAITING_MARGIN * ahead_ms and all(
        each.waiting_per_step_ms > most.waiting_per_step_ms for each in others
    )
    is_contrary = waits_less_ms < -WAITING_MARGIN * ahead_ms
    waiting = "; it waits least in the collectives" if waits_least else ""
    doubt = (
        f"{most.label} computes longest, but also spends {-waits_less_ms:.2f} ms {of} more in collectives"
        " than the others, so they do not wait for it"
        if is_contrary
        else None
    )
    text = (
        f"{most.label} computes {compute.most:.1f} ms {of}, the mean is {compute.mean:.1f} ms"
        f" (imbalance {100 * imbalance:.0f} %){waiting}"
    )
    flag = _flag(most, "trace.imbalance", text, imbalance, MAX_IMBALANCE, steps_of("load-imbalance"))
    flags = (flag, *_of_each(profiles, most if waits_least else None))
    if is_contrary:
        return TraceVerdict(flags, compute, communication, None, None, doubt)
    return TraceVerdict(flags, compute, communication, most, "high" if waits_least else "medium")


def per_step(profiles: Sequence[RankProfile]) -> str:
    """Return what the ranks' times refer to: `a step`, or `in all` if their traces have no steps."""
    return "a step" if any(each.steps_ms for each in profiles) else "in all"


def _lies_apart(compute: RankSpread, most: RankProfile) -> bool:
    """Return True if the computation of the ranks differs by more than the limit and more than noise."""
    apart_ms = (compute.most - compute.least) * max(1, len(most.steps_ms))
    if apart_ms < max(MIN_DIFFERENCE_MS, MIN_DIFFERENCE_SHARE * most.breakdown.span_ms):
        return False
    return (compute.imbalance or 0.0) > MAX_IMBALANCE


def _of_each(profiles: Sequence[RankProfile], awaited: RankProfile | None) -> tuple[TraceFlag, ...]:
    return tuple(flag for each in profiles for flag in _of_one(each, awaited))


def _of_one(profile: RankProfile, awaited: RankProfile | None) -> list[TraceFlag]:
    """Return the flags of one rank; `awaited`: the rank that the others wait for in their collectives."""
    found, parts = [], profile.breakdown
    if profile.trace.cut_off:
        text = f"the trace of {profile.label} is cut off: its figures are those of its beginning"
        found.append(_flag(profile, "trace.incomplete", text, 1.0, None, ()))
    ratio, idle = parts.communication_to_compute, parts.share(parts.idle_ms)
    if ratio is not None and ratio > MAX_COMMUNICATION_TO_COMPUTE:
        text = f"{profile.label} communicates {ratio:.2f} times as long as it computes"
        text += (
            f"; part of it is waiting for {awaited.label}"
            if awaited is not None and awaited is not profile
            else ""
        )
        found.append(
            _flag(
                profile,
                "trace.communication_high",
                text,
                ratio,
                MAX_COMMUNICATION_TO_COMPUTE,
                steps_of("communication-overhead"),
            )
        )
    if parts.basis == "gpu" and idle is not None and idle > MAX_IDLE_SHARE:
        text = f"the GPU of {profile.label} is idle {100 * idle:.0f} % of the time"
        found.append(_flag(profile, "trace.gpu_idle", text, idle, MAX_IDLE_SHARE, steps_of("gpu-idle")))
    return found


def _flag(
    profile: RankProfile, code: str, text: str, value: float, limit: float | None, actions: tuple[str, ...]
) -> TraceFlag:
    return TraceFlag(code, profile.trace.rank, profile.label, text, value, limit, actions)


def _spread(profiles: Sequence[RankProfile], of: Callable[[RankProfile], float]) -> RankSpread | None:
    if len(profiles) < MIN_RANKS_COMPARED:
        return None
    values = [of(each) for each in profiles]
    middle = mean(values)
    least, most = min(profiles, key=of), max(profiles, key=of)
    std = (sum((value - middle) ** 2 for value in values) / len(values)) ** 0.5
    return RankSpread(middle, std, of(least), of(most), least.label, most.label)


def compare_sections(profiles: Sequence[RankProfile]) -> list[SectionSpread]:
    """Return the spread of each section that all ranks passed, longest in total first.

    Empty for fewer than two ranks.
    """
    if len(profiles) < MIN_RANKS_COMPARED:
        return []
    times = [{each.name: each for each in profile.sections} for profile in profiles]
    found = []
    for name in set.intersection(*(set(each) for each in times)):
        means = {id(profile): one[name].mean_ms for profile, one in zip(profiles, times, strict=True)}
        spread = _spread(profiles, lambda profile, means=means: means[id(profile)])  # type: ignore[misc]  # a default of a lambda has no type
        if spread is not None:
            found.append(SectionSpread(name, sum(one[name].total_ms for one in times), spread))
    return sorted(found, key=lambda each: -each.total_ms)
