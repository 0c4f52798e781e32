"""The training progress of each rank: the newest values with their ages, and the step times.

In most frameworks only one rank logs for the job: rank 0, or the last one (Megatron-LM). A rank that reports
nothing is not behind. Values that an agent finds in the older part of a log never replace live ones.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.fleet.logs.logged_steps import CURVES, LoggedStep, is_sane, one_way, past_steps
from gpuwatch.fleet.logs.step_timers import COMMUNICATION, longest_timer
from gpuwatch.wire import SLURM_TASK, Progress

WriterKey: TypeAlias = tuple[str, str, int | None, int | None, int | None, str | None]
"""Node, file, rank, local rank, pid and host of the writer; None where unknown."""

KEPT_STEPS = 2_000
KEPT_PAST = 400
MAX_WRITERS = 10_000
KEPT_OF_NODE = 4_096
"""Maximum number of writers per node, enough for four logs of 1,024 ranks each.

The oldest are dropped first.
"""
KEPT_PHASES = 256
"""Maximum number of timers per writer; further names are ignored."""
KEPT_TIMINGS = 5
MAX_TASKS = 10_000
COUNTED = ("requests", "requests_failed")
"""Fields that count since the last frame: they are no newest value."""
OTHER_BAR_S = 600.0
"""A progress bar of another length is another loop (an evaluation) if the first one moved this recently."""


class Value(Struct, frozen=True):
    """A number that was read from a log, and when it was written."""

    value: float
    at: float
    """When the value was written (our monotonic clock); for an old line without a time, when it was read."""
    sure: bool = True
    """True if `at` is when it was written. False: the value is at least this old."""


@dataclass
class RankProgress:
    """All that one log writer has reported of a training: newest values, timers and recent steps."""

    node: str
    file: str
    rank: int | None = None
    local_rank: int | None = None
    job: str | None = None
    host: str | None = None
    pid: int | None = None
    dialect: str = ""
    per_epoch: bool = False
    """True if the rank's step numbers restart with every epoch."""
    values: dict[str, Value] = field(default_factory=dict)
    """Field of `wire.Progress` -> the newest value."""
    phases: dict[str, Value] = field(default_factory=dict)
    """Timer -> the newest value in seconds."""
    timings: dict[str, Sequence[Value]] = field(default_factory=dict)
    """Timer -> the last live values, oldest first."""
    past_timings: Sequence[tuple[float, Mapping[str, float]]] = ()
    """When a line was written before gpuwatch connected (our monotonic clock), and its timers in seconds."""
    steps: deque[LoggedStep] = field(default_factory=lambda: deque(maxlen=KEPT_STEPS))
    """Steps in forward order, oldest first; at most one per tick, so fast steps are sampled."""
    past: list[LoggedStep] = field(default_factory=list)
    """Steps from before gpuwatch connected, thinned: for curves, never for judgements."""
    offset: int = 0
    """Offset in bytes of the rank's newest line in the file."""
    received_at: float = -math.inf
    """When the rank last reported any progress (our monotonic clock)."""
    stepped_live: bool = False
    """True if a step was seen when it was logged; steps in a backlog are older."""
    stepped_at: float | None = None
    """When the rank's last new step was received (our monotonic clock); None: never."""
    logged_at: float = -math.inf
    """When the newest of `steps` was logged (unix seconds on the node's clock)."""
    first_logged: int | None = None
    """The first step of `logged_at`: steps of one whole second have the same time."""
    highest_scale: float | None = None
    """The highest loss scale so far."""
    tasks: set[int] = field(default_factory=set)
    """The Slurm tasks in the prefixes of the rank's lines, while these are not known to be ranks."""
    version: int = 0

    def value(self, name: str) -> float | None:
        """Return the newest value of a field, at any age; None: never reported."""
        known = self.values.get(name)
        return None if known is None else known.value

    def curve(self) -> list[LoggedStep]:
        """Return the old and the live steps, oldest first.

        Old steps from the number of the first live one on are left out, unless step numbers restart.
        """
        if not self.steps or self.per_epoch:
            return [*self.past, *self.steps]
        first = self.steps[0].step  # after a lost link, the history until the reconnect arrives
        return [*(step for step in self.past if step.step < first), *self.steps]

    @property
    def first_step_at(self) -> float | None:
        """Return when a log writer's first step was logged (our monotonic clock).

        None: the first step is not dated, more steps were logged than are kept, or step numbers restart.
        """
        if self.per_epoch or len(self.past) >= KEPT_PAST or len(self.steps) >= KEPT_STEPS:
            return None
        return next((step.at for step in self.curve()[:1] if math.isfinite(step.at)), None)

    def still(self) -> RankProgress:
        """Return a copy that does not change while this object does."""
        return replace(
            self,
            values=dict(self.values),
            phases=dict(self.phases),
            timings=dict(self.timings),
            steps=self.steps.copy(),
            tasks=self.tasks.copy(),
        )

    @property
    def done(self) -> float | None:
        """Return the finished fraction of the run, 0 to 1 (of the epoch, if step numbers restart with each).

        None: unknown.
        """
        step, total = self.value("step"), self.value("total_steps")
        return min(1.0, step / total) if step is not None and total else None

    def step_times(self, last: int = KEPT_STEPS) -> list[float]:
        """Return the seconds per step of the last `last` reported steps, as far as known."""
        return [step.took_s for step in list(self.steps)[-last:] if step.took_s is not None]


class FleetProgress:
    """The progress of all ranks; `version` increases with every report."""

    def __init__(self) -> None:
        self.writers: dict[WriterKey, RankProgress] = {}
        self._count: Counter[str] = Counter()
        """Number of writers by node."""
        self.version = 0

    def only(self, node: str) -> FleetProgress:
        """Return a `FleetProgress` with one node's ranks only, whose `RankProgress` objects it shares."""
        part = FleetProgress()
        part.writers = {key: known for key, known in self.writers.items() if key[0] == node}
        part._count[node] = len(part.writers)
        part.version = self.version
        return part

    def still(self) -> FleetProgress:
        """Return a copy that does not change while this object does."""
        frozen = FleetProgress()
        frozen.writers = {key: known.still() for key, known in self.writers.items()}
        frozen._count, frozen.version = Counter(self._count), self.version
        return frozen

    def forget(self, node: str) -> None:
        """Drop all progress of one node."""
        for key in [key for key in self.writers if key[0] == node]:
            del self.writers[key]
        del self._count[node]

    def _make_room(self, node: str) -> None:
        """If a limit is exceeded, drop the oldest writer: of this node, else of the node that has most."""
        if self._count[node] <= KEPT_OF_NODE and len(self.writers) <= MAX_WRITERS:
            return
        largest = node if self._count[node] > KEPT_OF_NODE else self._count.most_common(1)[0][0]
        del self.writers[next(key for key in self.writers if key[0] == largest)]
        self._count[largest] -= 1

    def take(self, node: str, reported: Progress, sent_at: float, arrived: float) -> RankProgress:
        """Store the values of one frame; return the progress of its writer.

        Values from the progress bar of another loop, such as an evaluation, are ignored.

        Args:
            node: Whose agent reported it.
            reported: The frame; its times are of the node's clock.
            sent_at: That clock when the frame was made.
            arrived: Our monotonic clock when it was received.
        """
        key = (node, reported.file, reported.rank, reported.local_rank, reported.pid, reported.host)
        known = self.writers.pop(key, None)
        if known is None:
            known = RankProgress(
                node, reported.file, reported.rank, reported.local_rank, host=reported.host, pid=reported.pid
            )
            self._count[node] += 1
        self.writers[key] = known
        self._make_room(node)
        at = arrived - max(0.0, sent_at - reported.at)
        if not _is_other_bar(known, reported, at):
            _take(known, reported, at)
            known.version += 1
            self.version += 1
        return known


def _is_other_bar(known: RankProgress, reported: Progress, at: float) -> bool:
    """Return True if a report comes from the progress bar of another loop, such as an evaluation."""
    total, before = reported.fields.get("total_steps"), known.values.get("total_steps")
    if (
        reported.dialect != known.dialect
        or not reported.dialect.endswith("bar")
        or total is None
        or before is None
    ):
        return False
    step = known.value("step") or 0.0
    return float(total) != before.value and step < before.value and at - before.at < OTHER_BAR_S


def _take(known: RankProgress, reported: Progress, at: float) -> None:
    sure = reported.timed or not reported.backlog
    past = reported.backlog and known.stepped_live
    known.job = reported.job or known.job
    if reported.index is not None and reported.index_of == SLURM_TASK and len(known.tasks) < MAX_TASKS:
        known.tasks.add(reported.index)
    if reported.past:
        steps = [*known.past, *past_steps(reported, at - reported.at)]
        offset_s = at - reported.at
        known.past_timings = tuple((each.at + offset_s, each.seconds) for each in reported.past_timers)
        known.past = (steps if reported.per_epoch else one_way(steps))[-KEPT_PAST:]
        return
    if not past:
        known.offset, known.dialect, known.per_epoch = reported.offset, reported.dialect, reported.per_epoch
        known.received_at = max(known.received_at, at)
    fields = {
        name: value
        for name, text in reported.fields.items()
        if name not in COUNTED and is_sane(name, value := float(text))
    }
    for name, value in fields.items():
        before = known.values.get(name)
        if before is None or (at >= before.at and (sure or not past)):
            known.values[name] = Value(value, at, sure)
    if (scale := fields.get("loss_scale")) is not None:
        known.highest_scale = max(scale, known.highest_scale or scale)
    for name, seconds in reported.phases_s.items():
        if name not in known.phases and len(known.phases) >= KEPT_PHASES:
            continue
        if not past or name not in known.phases:
            known.phases[name] = Value(seconds, at, sure)
        if sure and not past:
            earlier = known.timings.get(name, ())
            known.timings[name] = (*earlier, known.phases[name])[-KEPT_TIMINGS:]
    if not past and "step" in fields:
        known.stepped_live = known.stepped_live or not reported.backlog
        _step(known, fields, at, reported, sure=sure)
    _communication(known, {} if past else reported.phases_s, sure)


def _step(
    known: RankProgress, fields: Mapping[str, float], at: float, reported: Progress, *, sure: bool
) -> None:
    step = int(fields["step"])
    before = known.steps[-1] if known.steps else None
    if before is not None and before.step == step:
        return
    if sure or known.stepped_at is None:
        known.stepped_at = at
    if not sure:
        return
    took_s = fields.get("step_time_s")
    onward = before is not None and step > before.step
    if not (onward and reported.at == known.logged_at):
        first = known.first_logged
        if took_s is None and onward and first is not None and reported.at > known.logged_at:
            took_s = (reported.at - known.logged_at) / (step - first)
        known.logged_at, known.first_logged = reported.at, step
    curves = [fields.get(name) for name in CURVES]
    known.steps.append(LoggedStep(step, at, took_s, *curves, offset=reported.offset))


def _communication(known: RankProgress, phases_s: Mapping[str, float], sure: bool) -> None:
    """Set the communication time of the newest step from the logged timers.

    The step's line may stand before the line of the timers.
    """
    seconds = longest_timer(phases_s, COMMUNICATION)
    if seconds and sure and known.steps:
        known.steps[-1] = replace(known.steps[-1], communication_s=seconds)
