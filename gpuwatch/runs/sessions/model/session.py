"""A training session as it was read: its summary, its curves, and what could not be read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gpuwatch.plain import plain
from gpuwatch.runs.sessions.model.summary import MAX_NUMBER, SessionSummary

MAX_POINTS = 4_000
"""Points of one curve; twice as many are thinned to every second one."""
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
"""What is drawn, in this order. `communication_s`: seconds of communication that a step logs."""


class CurvePoint(NamedTuple):
    """One value; `step` and `time` (unix seconds) as far as they are known."""

    step: int | None
    time: float | None
    value: float


@dataclass
class SessionCurve:
    """Values of one quantity of one writer, in their order. At most `2 * MAX_POINTS` are kept."""

    writer: str = ""
    """`rank 3`, `gpu-001 GPU 2`; empty: of the whole job."""
    points: list[CurvePoint] = field(default_factory=list)
    stride: int = 1
    seen: int = 0
    is_finite: bool = True
    """Whether the newest value was neither NaN nor Inf."""
    non_finite_step: int | None = None
    """The first of the steps since which the values are NaN or Inf, where it is known."""

    def add(self, step: int | None, time: float | None, value: float | None) -> None:
        """Append a value; what is no number is no point."""
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
    """Curves by name and writer."""

    by_name: dict[str, dict[str, SessionCurve]] = field(default_factory=dict)

    def add(
        self, name: str, step: int | None, time: float | None, value: float | None, writer: str = ""
    ) -> None:
        """Append a value to the curve of a writer."""
        self.by_name.setdefault(name, {}).setdefault(writer, SessionCurve(writer)).add(step, time, value)

    def named(self, name: str) -> list[SessionCurve]:
        """The curves of one quantity, those of several points or one."""
        return [curve for curve in self.by_name.get(name, {}).values() if curve.points]

    def each(self) -> Iterator[tuple[str, list[SessionCurve]]]:
        """All quantities that have points, in the order of `CURVE_NAMES`."""
        for name in CURVE_NAMES:
            curves = self.named(name)
            if curves:
                yield name, curves

    def absorb(self, other: CurveSet) -> None:
        """Take the curves of quantities that are not known here."""
        for name, curves in other.by_name.items():
            if not self.named(name):
                self.by_name[name] = curves


@dataclass
class TrainingSession:
    """One session, from whatever it was read."""

    path: Path
    source: str
    """`session folder`, `trainer_state.json`, `TensorBoard`, ..."""
    summary: SessionSummary = field(default_factory=SessionSummary)
    curves: CurveSet = field(default_factory=CurveSet)
    problems: list[str] = field(default_factory=list)
    """What is missing or could not be read, a sentence each."""

    @property
    def name(self) -> str:
        """What it is called in a report: its id, else its folder's name."""
        return plain(self.summary.id or self.path.name or str(self.path))
