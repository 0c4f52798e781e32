"""Splits the time of one rank into compute, communication, memory copy, other and idle.

At each moment the first of these parts that was running counts, so communication means communication that no
computation hides.

Example: a kernel runs from 0 to 6 ms and an all_reduce from 4 to 9 ms within a span of 10 ms. Compute is 6
ms, communication 3 ms (of 5 ms busy), idle 1 ms; the exposed share is 0.6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gpuwatch.runs.traces.intervals import Intervals, merged, union, without
from gpuwatch.runs.traces.kinds import (
    EventKind,
    collective_of,
    is_communication_call,
    is_communication_kernel,
)
from gpuwatch.runs.traces.rank_trace import Events, RankTrace

MAX_LISTED_COLLECTIVES = 32


class CollectiveTime(Struct, frozen=True):
    """All calls of one collective on one rank; times in milliseconds."""

    name: str
    calls: int
    total_ms: float
    exposed_ms: float
    """Time without concurrent computation."""
    bytes: float | None
    """The larger of bytes sent and received, summed over all calls; None: the trace has no sizes."""


class Breakdown(Struct, frozen=True):
    """The times of one rank in milliseconds; `compute` to `idle` add up to `span`."""

    basis: str
    """The events that count: `gpu`, or `cpu` if the trace has no GPU events."""
    span_ms: float
    """Time from the first to the last counted event."""
    compute_ms: float
    communication_ms: float
    memory_copy_ms: float
    other_ms: float
    communication_busy_ms: float
    """Time of all communication, hidden by computation or not."""
    collectives: tuple[CollectiveTime, ...]

    @property
    def idle_ms(self) -> float:
        """Time without a counted event (ms)."""
        busy = self.compute_ms + self.communication_ms + self.memory_copy_ms + self.other_ms
        return max(0.0, self.span_ms - busy)

    @property
    def communication_to_compute(self) -> float | None:
        """The busy time of communication divided by that of computation; None without computation."""
        return self.communication_busy_ms / self.compute_ms if self.compute_ms else None

    @property
    def exposed_share(self) -> float | None:
        """The share of the communication that no computation hides, 0 to 1; None without communication."""
        return self.communication_ms / self.communication_busy_ms if self.communication_busy_ms else None

    def share(self, part_ms: float) -> float | None:
        """Return a part as a share of the span, 0 to 1; None if the span is empty."""
        return part_ms / self.span_ms if self.span_ms else None


def breakdown_of(trace: RankTrace) -> Breakdown:
    """Return the breakdown by GPU events, or by CPU operators if there are none."""
    return _gpu_breakdown(trace) if trace.has_gpu_events else _cpu_breakdown(trace)


def _gpu_breakdown(trace: RankTrace) -> Breakdown:
    events = trace.events.where(trace.events.kinds >= EventKind.KERNEL)
    communicates = _by_name(trace, events, is_communication_kernel)
    kernels = events.kinds == EventKind.KERNEL
    return _measured(
        trace,
        events,
        communicates & kernels,
        compute=_merged(events, kernels & ~communicates),
        copies=_merged(events, events.kinds == EventKind.MEMORY_COPY),
        others=_merged(events, events.kinds == EventKind.OTHER_GPU),
    )


def _cpu_breakdown(trace: RankTrace) -> Breakdown:
    """Return the breakdown by the operators of all threads.

    An operator that contains a collective does not count as computing during the collective.
    """
    calls = trace.events
    communicates = _by_name(trace, calls, is_communication_call)
    operators = (calls.kinds == EventKind.OPERATOR) & ~communicates
    counted = calls.where(operators | communicates)
    communicates = communicates[operators | communicates]
    computing = []
    for thread in np.unique(counted.threads):
        here = counted.threads == thread
        computing.append(
            without(_merged(counted, here & ~communicates), _merged(counted, here & communicates))
        )
    nothing = merged(np.zeros(0), np.zeros(0))
    compute = union(*computing) if computing else nothing
    return _measured(trace, counted, communicates, compute, nothing, nothing)


def _measured(
    trace: RankTrace,
    events: Events,
    communicates: npt.NDArray[np.bool_],
    compute: Intervals,
    copies: Intervals,
    others: Intervals,
) -> Breakdown:
    communication = _merged(events, communicates)
    steps = [compute.total]
    so_far = compute
    for part in (communication, copies, others):
        so_far = union(so_far, part)
        steps.append(so_far.total)
    compute_ms, communication_ms, copies_ms, others_ms = np.diff([0.0, *steps]) / 1e3
    span = float(events.ends.max() - events.starts.min()) / 1e3 if len(events) else 0.0
    collectives = _collectives(trace, events.where(communicates), compute)
    busy_ms = communication.total / 1e3
    return Breakdown(
        "gpu" if trace.has_gpu_events else "cpu",
        span,
        float(compute_ms),
        float(communication_ms),
        float(copies_ms),
        float(others_ms),
        busy_ms,
        collectives,
    )


def _merged(events: Events, chosen: npt.NDArray[np.bool_]) -> Intervals:
    return merged(events.starts[chosen], events.ends[chosen])


def _by_name(trace: RankTrace, events: Events, judge: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    known = np.array([judge(name) for name in trace.names], dtype=bool)
    found: npt.NDArray[np.bool_] = known[events.names] if len(events) else np.zeros(0, dtype=bool)
    return found


def _collectives(trace: RankTrace, events: Events, compute: Intervals) -> tuple[CollectiveTime, ...]:
    """Return the times by collective, longest first, at most `MAX_LISTED_COLLECTIVES`.

    On the CPU, both the call and the work behind it are events; the call counts only if there is no work
    event.
    """
    covered = compute.covered(events.starts, events.ends)
    by_name: dict[str, list[int]] = {}
    for row, (name, detail) in enumerate(zip(events.names.tolist(), events.details.tolist(), strict=True)):
        of_kernel = events.kinds[row] >= EventKind.KERNEL and detail >= 0
        by_name.setdefault(
            collective_of(trace.details[detail] if of_kernel else trace.names[name]), []
        ).append(row)
    found = []
    for name, rows in by_name.items():
        at = _without_callers(events, np.array(rows))
        sizes = events.sizes[at]
        total, hidden = float(events.durations[at].sum()), float(covered[at].sum())
        known = bool(len(sizes)) and not bool(np.isnan(sizes).all())
        found.append(
            CollectiveTime(
                name, len(at), total / 1e3, (total - hidden) / 1e3, float(np.nansum(sizes)) if known else None
            )
        )
    return tuple(sorted(found, key=lambda each: -each.total_ms))[:MAX_LISTED_COLLECTIVES]


def _without_callers(events: Events, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    annotated = rows[events.kinds[rows] != EventKind.OPERATOR]
    return annotated if len(annotated) else rows
