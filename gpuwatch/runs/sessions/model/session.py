"""A training session as read: summary, curves, and problems."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gpuwatch.plain import plain
from gpuwatch.runs.sessions.model.summary import MAX_NUMBER, SessionSummary

MAX_POINTS = 4_000
"""Points kept per curve; at twice as many, every second one is dropped."""
CURVE_NAMES = (
    "loss",
    "learning_rate",
    "grad_norm",
    "steps_per_s",
    "samples_per_s",
    "tokens_per_s",
    "gpu_utilization_pct",
    "gpu_memory_pct",
    "communication_s",
    "eval_loss",
)
"""The curves that are drawn, in order. `communication_s`: seconds of communication per step."""


class CurvePoint(NamedTuple):
    """A value of a curve, with `step` and `time` (unix seconds) if known."""

    step: int | None
    time: float | None
    value: float


@dataclass
class SessionCurve:
    """The values of one metric of one writer, in order; at most `2 * MAX_POINTS` are kept."""

    writer: str = ""
    """`rank 3`, `gpu-001 GPU 2`; empty: the whole job."""
    points: list[CurvePoint] = field(default_factory=list)
    stride: int = 1
    seen: int = 0
    is_finite: bool = True
    """False if the newest value is NaN or Inf."""
    non_finite_step: int | None = None
    """First step of the current sequence of NaN or Inf values, if known."""

    def add(self, step: int | None, time: float | None, value: float | None) -> None:
        """Append a value; None, NaN, Inf and too large ones are not appended.

        `non_finite_step` is the step at which the present NaN or Inf values began; a finite value clears it.
        A long curve is thinned to every second, fourth, ... value.
        """
        if value is not None:
            is_first = self.is_finite
            self.is_finite = math.isfinite(value)
            if self.is_finite:
                self.non_finite_step = None
            elif is_first:
                self.non_finite_step = step
        if value is None or not abs(value) < MAX_NUMBER:
            return
        if self.seen % self.stride == 0:
            self.points.append(CurvePoint(step, time, value))
            if len(self.points) > 2 * MAX_POINTS:
                self.points = self.points[::2]
                self.stride *= 2
        self.seen += 1


@dataclass
class CurveSet:
    """The curves of a session by metric and writer."""

    by_name: dict[str, dict[str, SessionCurve]] = field(default_factory=dict)

    def add(
        self, name: str, step: int | None, time: float | None, value: float | None, writer: str = ""
    ) -> None:
        """Append a value to the curve of a writer."""
        self.by_name.setdefault(name, {}).setdefault(writer, SessionCurve(writer)).add(step, time, value)

    def named(self, name: str) -> list[SessionCurve]:
        """Return the curves of one metric that have points."""
        return [curve for curve in self.by_name.get(name, {}).values() if curve.points]

    def each(self) -> Iterator[tuple[str, list[SessionCurve]]]:
        """Yield (name, curves) of all metrics that have points, in the order of `CURVE_NAMES`."""
        for name in CURVE_NAMES:
            curves = self.named(name)
            if curves:
                yield name, curves

    def absorb(self, other: CurveSet) -> None:
        """Add the curves of metrics that this set does not have."""
        for name, curves in other.by_name.items():
            if not self.named(name):
                self.by_name[name] = curves


@dataclass
class TrainingSession:
    """A session from any source: summary, curves and problems."""

    path: Path
    source: str
    """Where the session is from: `session folder`, `trainer_state.json`, `TensorBoard`, ..."""
    summary: SessionSummary = field(default_factory=SessionSummary)
    curves: CurveSet = field(default_factory=CurveSet)
    problems: list[str] = field(default_factory=list)
    """Missing or unreadable parts, one sentence each."""

    @property
    def name(self) -> str:
        """The name of the session in reports: the id, else the folder's name."""
        return plain(self.summary.id or self.path.name or str(self.path))
