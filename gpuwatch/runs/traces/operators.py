"""Operators of a trace: nesting, and the self time of each on CPU and GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gpuwatch.runs.traces.intervals import Floats, sums_by
from gpuwatch.runs.traces.kinds import EventKind, is_communication_call, is_communication_kernel
from gpuwatch.runs.traces.rank_trace import NO_VALUE, Events, RankTrace

MAX_LISTED_OPERATORS = 20
"""Most rows per table, as in `key_averages().table(row_limit=20)`."""
MAX_LISTED_SHAPES = 3
STEP = re.compile(r"ProfilerStep#\d+")
"""Matches a profiler step; all steps share one row of the tables, as in torch's."""
SLACK_US = 0.002
"""Microseconds by which a child may seem to end later than its parent: Kineto rounds to nanoseconds."""


class Operator(Struct, frozen=True):
    """The calls of one operator, section or runtime function; times in milliseconds."""

    name: str
    calls: int
    self_cpu_ms: float
    """CPU time without nested operators, as torch's `Self CPU`."""
    total_cpu_ms: float
    self_gpu_ms: float | None
    """Time of the kernels and copies that the calls launched directly; None: no GPU events in the trace."""
    total_gpu_ms: float | None
    flops: float | None
    shapes: tuple[str, ...]
    """Shapes of the inputs that took the most time."""


class Kernel(Struct, frozen=True):
    """The launches of one kernel or copy."""

    name: str
    calls: int
    total_ms: float
    is_communication: bool


class OperatorTables(Struct, frozen=True):
    """The operators that take the most time; `modules` are the modules in which most operators ran."""

    by_self_cpu: tuple[Operator, ...]
    by_gpu: tuple[Operator, ...]
    kernels: tuple[Kernel, ...]
    modules: tuple[tuple[str, int], ...]


def operator_tables(trace: RankTrace, listed: int = MAX_LISTED_OPERATORS) -> OperatorTables:
    """Return the tables of one rank, each with at most `listed` rows."""
    events = trace.events
    on_cpu = events.where((events.kinds < EventKind.KERNEL) & ~_background_work(trace))
    on_gpu = events.where(events.kinds >= EventKind.KERNEL)
    order = np.lexsort((-on_cpu.durations, on_cpu.starts, on_cpu.threads))
    calls = on_cpu.where(order)
    parents = parents_of(calls)
    self_us = calls.durations - _summed(parents, calls.durations)
    gpu_self = _launched(calls, parents, on_gpu) if len(on_gpu) else None
    gpu_total = _with_inner(parents, gpu_self) if gpu_self is not None else None
    grouped = _Grouped(trace, calls, np.maximum(self_us, 0.0), gpu_self, gpu_total)
    return OperatorTables(
        grouped.top(grouped.self_cpu, listed),
        grouped.top(grouped.gpu_total, listed) if grouped.gpu_total is not None else (),
        _kernels(trace.names, on_gpu, listed),
        tuple(trace.modules.most_common(listed)),
    )


def _background_work(trace: RankTrace) -> npt.NDArray[np.bool_]:
    """Return a mask of collectives on a backend's thread (`gloo:all_reduce`), which torch's table omits."""
    events = trace.events
    named = np.array([is_communication_call(name) for name in trace.names], dtype=bool)
    found: npt.NDArray[np.bool_] = (events.kinds == EventKind.ANNOTATION) & named[events.names]
    return found


def parents_of(calls: Events) -> npt.NDArray[np.int64]:
    """Return the row of each event's parent, or `NO_VALUE`.

    Rows are sorted by thread, start, and longest first.
    """
    found = np.full(len(calls), NO_VALUE, dtype=np.int64)
    open_rows: list[int] = []
    thread = None
    ends = calls.ends.tolist()
    for row, (start, of_thread) in enumerate(zip(calls.starts.tolist(), calls.threads.tolist(), strict=True)):
        if of_thread != thread:
            thread, open_rows = of_thread, []
        while open_rows and (ends[open_rows[-1]] <= start or ends[row] > ends[open_rows[-1]] + SLACK_US):
            open_rows.pop()
        if open_rows:
            found[row] = open_rows[-1]
        open_rows.append(row)
    return found


def _summed(parents: npt.NDArray[np.int64], values: Floats) -> Floats:
    """Return for each row the sum of its children's values."""
    inner = parents >= 0
    return sums_by(parents[inner], values[inner], len(parents))


def _with_inner(parents: npt.NDArray[np.int64], values: Floats) -> Floats:
    """Return for each row its value plus those of all descendants; parents come before children."""
    sums = values.tolist()
    for row in range(len(sums) - 1, -1, -1):
        if parents[row] >= 0:
            sums[parents[row]] += sums[row]
    return np.array(sums)


def _launched(calls: Events, parents: npt.NDArray[np.int64], on_gpu: Events) -> Floats:
    """Return the GPU time launched by each row.

    A launch belongs to the row that encloses the launching call, else to the row of Kineto's operator number,
    else to the call itself.
    """
    rows = np.full(len(on_gpu), NO_VALUE, dtype=np.int64)
    runtime = calls.kinds == EventKind.RUNTIME
    by_launch = _rows_with(np.where(runtime, calls.correlations, NO_VALUE), on_gpu.correlations)
    placed = by_launch >= 0
    rows[placed] = parents[by_launch[placed]]
    by_number = _rows_with(np.where(runtime, NO_VALUE, calls.externals), on_gpu.externals)
    rows = np.where(rows >= 0, rows, by_number)
    rows = np.where(rows >= 0, rows, by_launch)
    known = rows >= 0
    return sums_by(rows[known], on_gpu.durations[known], len(calls))


def _rows_with(keys: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return, for each number of `wanted`, its row in `keys`; `NO_VALUE` if it has none."""
    rows = np.flatnonzero(keys >= 0)
    if not len(rows):
        return np.full(len(wanted), NO_VALUE, dtype=np.int64)
    rows = rows[np.argsort(keys[rows], kind="stable")]
    at = np.minimum(np.searchsorted(keys[rows], wanted), len(rows) - 1)
    found: npt.NDArray[np.int64] = np.where((keys[rows[at]] == wanted) & (wanted >= 0), rows[at], NO_VALUE)
    return found


class _Grouped:
    """The sums of calls by name, in microseconds."""

    def __init__(
        self,
        trace: RankTrace,
        calls: Events,
        self_us: Floats,
        gpu_self: Floats | None,
        gpu_total: Floats | None,
    ) -> None:
        count = len(trace.names)
        number_of = np.arange(count)
        steps = [at for at, name in enumerate(trace.names) if STEP.fullmatch(name)]
        number_of[steps] = min(steps, default=0)
        self._numbers = number_of[calls.names] if len(calls) else np.zeros(0, dtype=np.int64)

        def sums(values: Floats) -> Floats:
            return sums_by(self._numbers, values, count)

        self._trace, self._events = trace, calls
        self._calls = np.bincount(self._numbers, minlength=count)
        self.self_cpu, self._total_cpu = sums(self_us), sums(calls.durations)
        self._gpu_self = sums(gpu_self) if gpu_self is not None else None
        self.gpu_total = sums(gpu_total) if gpu_total is not None else None
        operators = calls.kinds == EventKind.OPERATOR
        self._flops = sums(np.where(operators, np.nan_to_num(calls.sizes), 0.0))

    def top(self, by: Floats, listed: int) -> tuple[Operator, ...]:
        """Return at most `listed` operators with the highest sums `by`, of those above 0."""
        order = [number for number in np.argsort(-by, kind="stable")[:listed] if by[number] > 0]
        return tuple(self._operator(int(number)) for number in order)

    def _operator(self, number: int) -> Operator:
        gpu_self, gpu_total, flops = self._gpu_self, self.gpu_total, float(self._flops[number])
        return Operator(
            name=STEP.sub("ProfilerStep*", self._trace.names[number]),
            calls=int(self._calls[number]),
            self_cpu_ms=float(self.self_cpu[number]) / 1e3,
            total_cpu_ms=float(self._total_cpu[number]) / 1e3,
            self_gpu_ms=None if gpu_self is None else float(gpu_self[number]) / 1e3,
            total_gpu_ms=None if gpu_total is None else float(gpu_total[number]) / 1e3,
            flops=flops or None,
            shapes=self._shapes(number),
        )

    def _shapes(self, number: int) -> tuple[str, ...]:
        rows = np.flatnonzero((self._numbers == number) & (self._events.details >= 0))
        if not len(rows):
            return ()
        weights = np.bincount(self._events.details[rows], weights=self._events.durations[rows])
        order = np.argsort(-weights, kind="stable")[:MAX_LISTED_SHAPES]
        return tuple(self._trace.details[each] for each in order if weights[each] > 0)


def _kernels(names: Sequence[str], on_gpu: Events, listed: int) -> tuple[Kernel, ...]:
    sums = sums_by(on_gpu.names, on_gpu.durations, len(names))
    counts = np.bincount(on_gpu.names, minlength=len(names))
    return tuple(
        Kernel(names[at], int(counts[at]), float(sums[at]) / 1e3, is_communication_kernel(names[at]))
        for at in np.argsort(-sums, kind="stable")[:listed]
        if counts[at]
    )
