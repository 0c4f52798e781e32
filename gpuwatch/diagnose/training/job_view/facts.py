"""The data that screen 6 shows for one job: values with ages, ranks, and their spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.training.job_view.rank_placement import Job
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.rules.model.dialect import Scope
from gpuwatch.wire import GpuState

RECENT_STEPS = 50
"""Number of logged steps from which pace, gap and ETA are computed."""
IMBALANCE, MEMORY_IMBALANCE = 0.10, 0.20
"""(max - min) / mean above which ranks count as unequal; for memory, the second value."""
Side: TypeAlias = Literal["high", "low", "both"]


class Fact(Struct, frozen=True):
    """A value and its time on our monotonic clock."""

    value: float
    at: float
    computed: bool = False
    """True if gpuwatch computed the value instead of reading it from the log."""

    def age_s(self, now: float) -> float:
        """Return the age of the value in seconds."""
        return max(0.0, now - self.at)


@dataclass(slots=True)
class RankRow:
    """A row of screen 6: what is known of one rank. None: unknown."""

    rank: int | None
    node: str
    gpu: int | None = None
    uuid: str | None = None
    file: str | None = None
    """Its log file."""
    writer: RankProgress | None = None
    alive: bool = False
    """True if the rank's process was in its node's last list."""
    inferred: bool = False
    """True if the rank's number is inferred from the start order of sibling processes; shown as `~3`."""
    ended: bool = False
    """True if the rank's process was seen and is gone."""
    step: int | None = None
    lag: int | None = None
    """Steps behind the highest rank."""
    step_s: float | None = None
    tokens_per_s: float | None = None
    reported_at: float | None = None
    """When it logged its step."""
    wrote_at: float | None = None
    """When its log last grew."""
    memory_bytes: float | None = None
    memory_total_bytes: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_pct: float | None = None
    """Percent of the last second in thermal or power-brake slowdown; a power cap is normal under load."""
    busy_pct: float | None = None
    gpu_at: float | None = None
    gpu_state: GpuState | None = None
    reported_late: bool = False
    """True if the rank's logged values are too old to be current."""
    gpu_late: bool = False
    flags: frozenset[str] = frozenset()
    """Columns in which the rank stands out."""


class RankMetric(Struct, frozen=True):
    """A column of screen 6 in which ranks are compared: its source, and when a rank stands out."""

    name: str
    """The field of `RankRow`."""
    source: Literal["log", "gpu"]
    limit: float | None = None
    """Imbalance from which a difference is reported; None: healthy ranks differ by more (heat, power)."""
    bad: Side = "high"
    """The side of the median on which a rank stands out."""


COLUMNS = (
    RankMetric("step_s", "log", IMBALANCE),
    RankMetric("tokens_per_s", "log", IMBALANCE, "low"),
    RankMetric("memory_bytes", "gpu", MEMORY_IMBALANCE, "both"),
    RankMetric("clock_mhz", "gpu", IMBALANCE, "low"),
    RankMetric("power_w", "gpu"),
    RankMetric("temperature_c", "gpu"),
)


class Spread(Struct, frozen=True):
    """Mean, deviation, extremes, median and imbalance of the ranks in one column."""

    count: int
    mean: float
    std: float
    """Standard deviation of the population."""
    least: float
    most: float
    middle: float
    """Median."""
    imbalance: float | None
    """(max - min) / mean; None where the mean is not positive."""
    flagged: bool


def spread(values: Sequence[float], limit: float | None) -> Spread | None:
    """Return mean, deviation and extremes; None for fewer than two values.

    `limit`: imbalance, (max - min) / mean, above which it is flagged; None: never.
    """
    count = len(values)
    if count < 2:
        return None
    ordered = sorted(values)
    mean = math.fsum(ordered) / count
    deviation = math.sqrt(math.fsum([(value - mean) ** 2 for value in ordered]) / count)
    share = (ordered[-1] - ordered[0]) / mean if mean > 0 else None
    flagged = limit is not None and share is not None and share > limit
    return Spread(count, mean, deviation, ordered[0], ordered[-1], ordered[count // 2], share, flagged)


class StepTimes(Struct, frozen=True):
    """Percentiles of the last reported step times, in seconds (nearest rank)."""

    count: int
    p50: float
    p95: float
    p99: float


def step_times(times: Sequence[float]) -> StepTimes | None:
    """Return the percentiles of step times in seconds; None for an empty sequence."""
    if not times:
        return None
    ordered = sorted(times)

    def nearest(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return StepTimes(len(ordered), nearest(0.50), nearest(0.95), nearest(0.99))


def usual_gap(reported: Sequence[float]) -> float | None:
    """Return the median rise between the last RECENT_STEPS values, falls left out; None: they never rise."""
    gaps = [later - before for before, later in pairwise(reported[-RECENT_STEPS:]) if later > before]
    return median(gaps) if gaps else None


class Share(Struct, frozen=True):
    """The part of a step (0 to 1) that is spent waiting for `what`, by the log's own timers."""

    what: str
    share: float
    flagged: bool


@dataclass
class JobFacts:
    """All that screen 6 shows of one job: its metrics, its ranks, and their spreads."""

    job: Job
    made_at: float
    ranks_seen: int = 0
    ranks_alive: int = 0
    """Number of ranks whose process was in its node's last list."""
    world: int | None = None
    """World size of the job, if its ranks report it."""
    nodes: int = 0
    gpus: int = 0
    """Number of the job's GPUs; 0: none, or not known of all ranks."""
    gpu_name: str | None = None
    """Model of all the job's GPUs; None: unknown, or several models."""
    speaker: RankProgress | None = None
    """The log writer whose values stand for the job."""
    speaker_rank: int | None = None
    speaking: int = 0
    """Number of ranks that log steps."""
    facts: dict[str, Fact] = field(default_factory=dict)
    """Field of `wire.Progress` -> its newest value; `mfu` and `eta_s` may be computed."""
    scope: Scope | None = None
    """Whether the logged `tokens_per_s` is per GPU or for the job."""
    job_tokens_per_s: Fact | None = None
    """Tokens per second of all ranks together."""
    why_no_mfu: str = ""
    times: StepTimes | None = None
    gap_s: float | None = None
    """Usual seconds between two logged steps."""
    late_s: float = 0.0
    """Age in seconds from which a value is shown as stale."""
    shares: tuple[Share, ...] = ()
    rows: list[RankRow] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)
    """Column -> spread over the ranks with current values."""

    @property
    def stepped_at(self) -> float | None:
        """Return when a step was last logged (our monotonic clock); None: unknown."""
        return None if self.speaker is None else self.speaker.stepped_at

    def late(self, at: float | None, now: float) -> bool:
        """Return True if a value of time `at` is stale, or has no time."""
        return at is None or now - at > self.late_s
