"""The steps that each rank logged in a file: a bounded sample that contains every kind of line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, field

from gpuwatch.agent.logs.lines.normalise import last_message
from gpuwatch.agent.logs.lines.programs import is_system
from gpuwatch.agent.logs.matching.record_rank import read_message
from gpuwatch.agent.logs.progress.dialect import CompiledDialect, ProgressReading
from gpuwatch.agent.logs.scanning.own_output import foreign_lines, without_screens
from gpuwatch.agent.logs.scanning.progress_reader import ProgressReader
from gpuwatch.runs.model.record import Row, StepsBetween
from gpuwatch.runs.steps.step_lines import MAX_SHAPES, LineChoice, RankKind

FIRST_LINES, MIN_FIRST_LINES = 1_000, 40
"""Number of lines that are parsed in addition, shared by all files; small logs are parsed completely."""
LARGE_FILE_BYTES = 8 << 20
"""Size in bytes above which a file gets the smallest number of first lines; its blocks give enough steps."""
KEPT_POINTS = 2_000
"""Points kept per series; at twice as many, every second one is dropped."""
KEPT_SERIES = 1_024
KEPT_IN_ALL = 50_000
"""Most points that are kept over all series of one part of a file."""
KEPT_TIMINGS = 5
MAX_LINE = 8_192
WRITER = ("rank", "local_rank", "host", "index", "index_of", "pid")
"""Keys of `wire.Finding` that distinguish the writers of a file."""
MAX_DEFERRED = 8_192
"""Most last lines of ranks that wait for the end of the file."""
CURVES = ("loss", "grad_norm", "tokens_per_s", "samples_per_s", "step_time_s", "lr")


class StepPoint(NamedTuple):
    """One logged step. None: the line does not have the value."""

    offset: int
    """Offset of the step's line in its file (bytes)."""
    at: float | None
    """The line's own time (unix seconds)."""
    step: int
    loss: float | None = None
    grad_norm: float | None = None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    step_time_s: float | None = None
    lr: float | None = None


class StepSeries(Struct):
    """The steps of one rank in one file, in file order."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    index: int | None = None
    """A number after the word `index_of` that may be the rank; None: no such number."""
    index_of: str | None = None
    dialect: str = ""
    per_epoch: bool = False
    total_steps: int | None = None
    points: list[StepPoint] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    """Field of `wire.Progress` -> its newest value."""
    timings: dict[str, list[float]] = field(default_factory=dict)
    """Timer -> the last values that it logged (seconds)."""
    highest_scale: float | None = None

    def take(self, offset: int, at: float | None, reading: ProgressReading) -> None:
        """Add the values of one line of this rank; a step of another loop is left out."""
        fields = {name: float(value) for name, value in reading.fields.items() if _is_number(value)}
        if "step" in fields:
            total = fields.get("total_steps")
            if self._of_other_loop(fields["step"], total, reading.dialect):
                return
            self.dialect, self.per_epoch = reading.dialect.id, reading.dialect.per_epoch
            self.total_steps = self.total_steps if total is None else int(total)
            self._add(StepPoint(offset, at, int(fields["step"]), *[fields.get(name) for name in CURVES]))
        elif self.points:
            self._complete(fields)
        self.values.update(fields)
        if "loss_scale" in fields:
            self.highest_scale = max(fields["loss_scale"], self.highest_scale or fields["loss_scale"])
        for name, seconds in reading.phases.items():
            self.timings[name] = [*self.timings.get(name, ()), seconds][-KEPT_TIMINGS:]

    def thin(self) -> None:
        """Drop every second step.

        Keep the last one, and those at which a loss becomes or stops being finite.
        """
        last = len(self.points) - 1
        self.points = [
            point
            for index, point in enumerate(self.points)
            if index % 2 == 0 or index == last or _finite(point) != _finite(self.points[index - 1])
        ]

    def join(self, later: StepSeries) -> None:
        """Append the same rank's series from a later part of the file."""
        self.points += later.points
        self.values.update(later.values)
        self.timings.update(later.timings)
        self.dialect, self.per_epoch = later.dialect or self.dialect, later.per_epoch
        self.total_steps = later.total_steps or self.total_steps
        scales = [each for each in (self.highest_scale, later.highest_scale) if each is not None]
        self.highest_scale = max(scales, default=None)
        while len(self.points) > 2 * KEPT_POINTS:
            self.thin()

    def merge(self, other: StepSeries) -> None:
        """Merge a series of the same file whose lines are interleaved with these."""
        self.join(other)
        self.points.sort(key=lambda point: point.offset)

    def _of_other_loop(self, step: float, total: float | None, dialect: CompiledDialect) -> bool:
        """Return True for an evaluation's progress bar: with another total, and a smaller step or total."""
        if not dialect.id.endswith("bar") or total is None or self.total_steps is None or not self.points:
            return False
        return int(total) != self.total_steps and (step < self.points[-1].step or total < self.total_steps)

    def _add(self, point: StepPoint) -> None:
        if self.points and self.points[-1].step == point.step:
            self.points[-1] = _merged(self.points[-1], point)
            return
        self.points.append(point)
        if len(self.points) > 2 * KEPT_POINTS:
            self.thin()

    def _complete(self, fields: Mapping[str, float]) -> None:
        """Assign the values of a line without a step to the last step."""
        more = {name: fields[name] for name in CURVES if name in fields}
        if more:
            self.points[-1] = self.points[-1]._replace(**more)  # type: ignore[arg-type]  # the keys are names of fields, the values numbers


WaitingLine: TypeAlias = tuple[int, float, bytes, bytes, list[CompiledDialect]]
"""Offset, arrival (unix seconds), line, shape and dialects of a line to parse."""


class StepRecorder:
    """Samples the steps of a file; it replaces the agent's `ProgressReader`, which reads the newest lines."""

    def __init__(self, progress: ProgressReader, first_lines: int) -> None:
        self._progress = progress
        self._choice = LineChoice(first_lines)
        self._found: list[tuple[int, bytes, bytes, list[CompiledDialect], RankKind | None]] = []
        self._waiting: deque[WaitingLine] = deque()
        self._deferred: dict[RankKind, WaitingLine] = {}
        """The last line so far of each of many ranks."""
        self._fitting: dict[bytes, list[CompiledDialect]] = {}
        self.own = True
        """False while the input belongs to another part of the file."""
        self.series: dict[tuple[Any, ...], StepSeries] = {}

    @property
    def newest(self) -> StepRecorder:
        """The object that receives the prefilter's lines: this recorder itself."""
        return self

    def take_from(self, backlog: bool) -> None:
        """No-op: a recorder of steps needs no preparation for a backlog."""

    def take(
        self,
        lines: Sequence[bytes],
        shapes: Sequence[bytes],
        paced: Mapping[bytes, list[CompiledDialect]],
        size: int,
    ) -> None:
        """Choose among the lines whose shape may contain progress: some of every kind, and the last."""
        if not self.own:
            return
        chosen = self._choice.choose(lines, shapes, paced, size)
        for key in self._choice.replaced:
            self._deferred.pop(key, None)
        later: dict[int, RankKind | None] = {index: key for key, index in self._choice.deferred.items()}
        for index in chosen:
            later[index] = None
        at = before = 0
        for index in sorted(later):
            at += sum(map(len, lines[before:index])) + index - before
            before = index
            if len(lines[index]) <= MAX_LINE:
                self._found.append((at, lines[index], shapes[index], paced[shapes[index]], later[index]))

    def place(self, offset_of: Callable[[int], int], arrived: float, backlog: bool) -> None:  # noqa: ARG002 - as `Newest` has it
        """Queue the lines chosen by `take` with their file offsets."""
        for at, line, shape, dialects, key in self._found:
            waiting = (offset_of(at), arrived, line, shape, dialects)
            if key is None or (len(self._deferred) >= MAX_DEFERRED and key not in self._deferred):
                self._waiting.append(waiting)
            else:
                self._deferred[key] = waiting
        self._found.clear()

    def take_deferred(self) -> None:
        """Queue the deferred last lines of ranks: the file, or this worker's part of it, has ended."""
        self._waiting.extend(sorted(self._deferred.values(), key=itemgetter(0)))
        self._deferred.clear()

    def frames(self, local_ranks: bool) -> list[dict[str, Any]]:
        """Parse the queued lines into the series; return an empty list, as no frames are sent."""
        while self._waiting:
            offset, arrived, line, shape, dialects = self._waiting.popleft()
            readings = self._readings(line, shape, dialects, local_ranks)
            self._choice.note(dialects, reported=bool(readings))
            at = self._progress.written_at(line, arrived) if readings else None
            for reading, by, text in readings:
                who = self._progress.whose(reading.fields, by, read_message(text, by, line))
                key = tuple(who.get(name) for name in WRITER)
                rank, local_rank, host, index, index_of, _ = key
                series = self.series.get(key)
                if series is None and len(self.series) < KEPT_SERIES:
                    series = self.series[key] = StepSeries(rank, local_rank, host, index, index_of)
                if series is not None and not (series.points and offset < series.points[-1].offset):
                    series.take(offset, at, reading)
        if sum(len(each.points) for each in self.series.values()) > KEPT_IN_ALL:
            for each in self.series.values():
                each.thin()
        return []

    def _readings(
        self, line: bytes, shape: bytes, dialects: list[CompiledDialect], local_ranks: bool
    ) -> list[tuple[ProgressReading, Any, str]]:
        """Return (values, writer, text) of each message of a line.

        For a known shape only the dialects that matched it are tried.
        """
        fitting = self._fitting.get(shape)
        if fitting is not None and not fitting:
            return []
        found = list(self._progress.readings(line, fitting or dialects, local_ranks))
        if fitting is None and all(each.steady for each in dialects):
            if len(self._fitting) >= MAX_SHAPES:
                self._fitting.clear()
            used = [each for each in dialects if any(reading.dialect is each for reading, _, _ in found)]
            self._fitting[shape] = used
        return found


def joined(parts: Iterable[Mapping[tuple[Any, ...], StepSeries]]) -> list[StepSeries]:
    """Return the series of a file's parts joined, in file order, without empty ones."""
    found: dict[tuple[Any, ...], StepSeries] = {}
    for part in parts:
        for key, series in part.items():
            if key in found:
                found[key].join(series)
            else:
                found[key] = series
    return [series for series in found.values() if series.points]


def last_lines(data: bytes, count: int) -> list[str]:
    """Return the last `count` non-blank lines, without launcher prefixes and gpuwatch's own output.

    A line of a system program begins with the program's name: `sshd: Failed password for root`.
    """
    lines = foreign_lines([line for line in re.split(rb"[\r\n]+", without_screens(data)) if line.strip()])
    last = [last_message(line) for line in lines[-count:]]
    return [
        f"{speaker.program}: {text.strip()}" if is_system(speaker.program or "") else text.strip()
        for text, speaker in last
    ]


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # that is what the call is to find out
    except (TypeError, ValueError):
        return False
    return True


def _finite(point: StepPoint) -> bool:
    return all(
        value is None or (value == value and abs(value) != float("inf"))  # noqa: PLR0124 - NaN
        for value in (point.loss, point.grad_norm)
    )


def _merged(old: StepPoint, new: StepPoint) -> StepPoint:
    """Return two points about one step merged into one; the newer values count."""
    pairs = zip(old, new, strict=True)
    return StepPoint(*[before if value is None else value for before, value in pairs])  # type: ignore[arg-type]  # the values are those of two points


def steps_in(series: Sequence[StepSeries]) -> StepsBetween:
    """Return a function (row, low, high) -> number of distinct steps between two offsets of a file.

    Both offsets are excluded; `high` None: to the end. Steps of the row's rank and of series without a rank
    count; for a row without a rank, those of all ranks.
    """

    def between(row: Row, low: int, high: int | None) -> int:
        rank = row.get("rank")
        steps = {
            point.step
            for each in series
            if rank is None or each.rank in (None, rank)
            for point in each.points[bisect_right(each.points, low, key=attrgetter("offset")) :]
            if high is None or point.offset < high
        }
        return len(steps)

    return between
