"""What screen 6 shows of one job, as data: numbers with their ages, ranks, and how far those lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from gpuwatch.diagnose.training.job_view.mfu import Scope
from gpuwatch.diagnose.training.job_view.rank_placement import Job
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.wire import GpuState

RECENT_STEPS = 50
"""Reported steps that a pace, a gap and an ETA are worked out from."""
IMBALANCE, MEMORY_IMBALANCE = 0.10, 0.20
"""(max - min) / mean over which ranks count as unequal."""
Side: TypeAlias = Literal["high", "low", "both"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number and when it was true (our monotonic clock)."""

    value: float
    at: float
    computed: bool = False
    """Worked out by gpuwatch, not reported by the log."""

    def age_s(self, now: float) -> float:
        """Seconds since it was true."""
        return max(0.0, now - self.at)


@dataclass(slots=True)
class RankRow:
    """One rank. None is unknown."""

    rank: int | None
    node: str
    gpu: int | None = None
    uuid: str | None = None
    file: str | None = None
    """Where it writes."""
    writer: RankProgress | None = None
    alive: bool = False
    """Whether its process was seen when its node last listed them."""
    inferred: bool = False
    """Its number is a guess from the order of its siblings' starts: written `~3`."""
    ended: bool = False
    """Its process was seen, and is gone."""
    step: int | None = None
    lag: int | None = None
    """Steps behind the furthest rank."""
    step_s: float | None = None
    tokens_per_s: float | None = None
    reported_at: float | None = None
    """When it reported its step."""
    wrote_at: float | None = None
    """When its log last grew."""
    memory_bytes: float | None = None
    memory_total_bytes: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_pct: float | None = None
    """Share of the last second in a thermal or power-brake slowdown; a power cap is ordinary under load."""
    busy_pct: float | None = None
    gpu_at: float | None = None
    gpu_state: GpuState | None = None
    reported_late: bool = False
    """What it reported is too old to state anything about now."""
    gpu_late: bool = False
    flags: frozenset[str] = frozenset()
    """Columns in which it stands out."""


@dataclass(frozen=True, slots=True)
class RankMetric:
    """A column of numbers that ranks are compared by."""

    name: str
    """The field of `RankRow`."""
    source: Literal["log", "gpu"]
    limit: float | None = None
    """Imbalance from which it is reported; None: healthy ranks differ by more than that (heat, power)."""
    bad: Side = "high"
    """On which side of the median a rank stands out."""


COLUMNS = (
    RankMetric("step_s", "log", IMBALANCE),
    RankMetric("tokens_per_s", "log", IMBALANCE, "low"),
    RankMetric("memory_bytes", "gpu", MEMORY_IMBALANCE, "both"),
    RankMetric("clock_mhz", "gpu", IMBALANCE, "low"),
    RankMetric("power_w", "gpu"),
    RankMetric("temperature_c", "gpu"),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the ranks lie apart in one column."""

    count: int
    mean: float
    std: float
    """Of the whole population."""
    least: float
    most: float
    middle: float
    """The median."""
    imbalance: float | None
    """(max - min) / mean; None where the mean is not above 0."""
    flagged: bool


def spread(values: Sequence[float], limit: float | None) -> Spread | None:
    """Mean, deviation and extremes of at least two values."""
    count = len(values)
    if count < 2:
        return None
    ordered = sorted(values)
    mean = math.fsum(ordered) / count
    deviation = math.sqrt(math.fsum([(value - mean) ** 2 for value in ordered]) / count)
    share = (ordered[-1] - ordered[0]) / mean if mean > 0 else None
    flagged = limit is not None and share is not None and share > limit
    return Spread(count, mean, deviation, ordered[0], ordered[-1], ordered[count // 2], share, flagged)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Percentiles of the last reported step times, in seconds (nearest rank)."""

    count: int
    p50: float
    p95: float
    p99: float


def step_times(times: Sequence[float]) -> StepTimes | None:
    """Percentiles of what is known; None: nothing is."""
    if not times:
        return None
    ordered = sorted(times)

    def nearest(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return StepTimes(len(ordered), nearest(0.50), nearest(0.95), nearest(0.99))


def usual_gap(reported: Sequence[float]) -> float | None:
    """The median distance from one of the last values to the next where they grow; None: they never do."""
    gaps = [later - before for before, later in pairwise(reported[-RECENT_STEPS:]) if later > before]
    return median(gaps) if gaps else None


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the step that is spent waiting for something, by the log's own timers."""

    what: str
    share: float
    flagged: bool


@dataclass
class JobFacts:
    """One job."""

    job: Job
    made_at: float
    ranks_seen: int = 0
    ranks_alive: int = 0
    """Ranks whose process was seen when its node last listed them."""
    world: int | None = None
    """How many ranks it has, where they state it."""
    nodes: int = 0
    gpus: int = 0
    """0: none, or not known of all ranks."""
    gpu_name: str | None = None
    """Of all its GPUs; None: not known, or several."""
    speaker: RankProgress | None = None
    """Whose words are the job's."""
    speaker_rank: int | None = None
    speaking: int = 0
    """Ranks that report steps."""
    facts: dict[str, Fact] = field(default_factory=dict)
    """Field of `wire.Progress` -> newest; `mfu` and `eta_s` may be computed."""
    scope: Scope | None = None
    """Whose `tokens_per_s` that is."""
    job_tokens_per_s: Fact | None = None
    """Of all ranks together."""
    why_no_mfu: str = ""
    times: StepTimes | None = None
    gap_s: float | None = None
    """Usual seconds from one reported step to the next."""
    late_s: float = 0.0
    """What is older than this looks stale."""
    shares: tuple[Share, ...] = ()
    rows: list[RankRow] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)
    """Column -> spread over the ranks whose values are of now."""

    @property
    def stepped_at(self) -> float | None:
        """When a step was last reported."""
        return None if self.speaker is None else self.speaker.stepped_at

    def late(self, at: float | None, now: float) -> bool:
        """Whether something reported at that time states little about now."""
        return at is None or now - at > self.late_s
