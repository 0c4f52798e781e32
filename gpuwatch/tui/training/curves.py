"""The curves of loss, gradient norm, throughput, step time and communication, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.training.job_view.facts import JobFacts
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.number_text import scaled_text
from gpuwatch.tui.toolkit.charts import curve as line_of
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, fit
from gpuwatch.tui.training.job_view import TrainingView

GAP_CELLS, MIN_CURVE_CELLS = 2, 22
"""Cells between two curves, and of the narrowest one."""
AXIS_ROWS = 6
"""From this number of lines on, one of them is the axis of step numbers."""


class Curve(Struct, frozen=True):
    """A value of logged steps that is drawn as a curve."""

    name: str
    read: Callable[[LoggedStep], float | None]
    many: bool = False
    """True to write it with a prefix: `453k`."""


def communication_pct(step: LoggedStep) -> float | None:
    """Return the part of the step spent in communication, 0 to 100; None: unknown, or it overlaps steps."""
    if not step.took_s or step.communication_s is None or step.communication_s > step.took_s:
        return None
    return 100 * step.communication_s / step.took_s


CURVES = (
    Curve("loss", lambda step: step.loss),
    Curve("grad norm", lambda step: step.grad_norm),
    Curve("tokens/s", lambda step: step.tokens_per_s, many=True),
    Curve("samples/s", lambda step: step.samples_per_s, many=True),
    Curve("step s", lambda step: step.took_s),
    Curve("communication %", communication_pct),
)
"""The curves, in order of priority when space is short."""


def reported(steps: Sequence[LoggedStep]) -> list[tuple[Curve, list[float | None]]]:
    """Return the curves with any known value, with their values; samples/s only if no tokens/s are known."""
    found = [(curve, [curve.read(step) for step in steps]) for curve in CURVES]
    some = [(curve, values) for curve, values in found if any(value is not None for value in values)]
    names = {curve.name for curve, _ in some}
    return [each for each in some if each[0].name != "samples/s" or "tokens/s" not in names]


def bucketed(values: Sequence[float | None], count: int) -> list[float | None]:
    """Return the values, or the means of `count` buckets if there are more.

    NaN and infinity are left out of a mean; a bucket without finite values is None.
    """
    if len(values) <= count:
        return list(values)
    points: list[float | None] = []
    for index in range(count):
        part = values[index * len(values) // count : (index + 1) * len(values) // count]
        known = [value for value in part if value is not None and math.isfinite(value)]
        points.append(math.fsum(known) / len(known) if known else None)
    return points


class TrainingCurves(RebuiltPage, can_focus=False):
    """The widget with the curves of a job's loss, gradient norm, throughput, step time and communication.

    `lines` is its height.
    """

    DEFAULT_CSS: ClassVar[str] = "TrainingCurves { height: 4; overflow-y: hidden; }"
    can_focus = False

    def __init__(self, view: TrainingView) -> None:
        super().__init__(id="training-curves")
        self.view = view
        self.lines = 4
        self._reported, self._asked, self._seen = False, -1, -1
        self._made_for: tuple[int, int, StyleSet, int] | None = None
        self._made: list[Row] = []

    def is_reported(self) -> bool:
        """Return True if a step in the shown job's log has a value for any curve."""
        if self._asked != self.view.version:
            self._asked = self.view.version
            writer = self.view.facts.speaker if self.view.facts else None
            steps = () if writer is None else (*writer.past, *writer.steps)
            self._reported = any(curve.read(step) is not None for step in steps for curve in CURVES)
        return self._reported

    def build(self, width: int) -> list[Row]:
        facts, version = self.view.facts, self.view.version
        wanted = (width, self.lines, self.look, version)
        later = self._made_for is not None and wanted[:3] == self._made_for[:3] and version != self._seen
        self._seen = version
        if wanted != self._made_for and not later:
            self._made_for = wanted
            self._made = [] if facts is None or facts.speaker is None else self._draw(facts, width)
        return self._made

    def _draw(self, facts: JobFacts, width: int) -> list[Row]:
        look, steps = self.look, facts.speaker.curve() if facts.speaker else []
        curves = reported(steps)[: max(1, (width - 2 + GAP_CELLS) // (MIN_CURVE_CELLS + GAP_CELLS))]
        if not curves:
            return []
        cells = (width - 2 - GAP_CELLS * (len(curves) - 1)) // len(curves)
        late = facts.late(facts.stepped_at, self.view_state.now)
        height = self.lines - (self.lines >= AXIS_ROWS)
        per = {"gpu": "/GPU", "job": " of the job"}.get(facts.scope or "", "")
        curves = [(replace(c, name=c.name + per) if c.name == "tokens/s" else c, v) for c, v in curves]
        columns = [drawn(curve, values, cells, height, look, late) for curve, values in curves]
        rows: list[Row] = []
        for line in range(height):
            parts = [Segment(" ")]
            for number, column in enumerate(columns):
                parts += [Segment(" " * GAP_CELLS)] if number else []
                parts += column[line]
            rows.append(tuple(parts))
        if self.lines >= AXIS_ROWS:
            rows.append((Segment(f" steps {steps[0].step:,} to {steps[-1].step:,}", look.dim),))
        return rows


def drawn(
    curve: Curve, values: Sequence[float | None], width: int, height: int, look: StyleSet, late: bool
) -> list[list[Segment]]:
    """Return one curve as `height` lines: its range of values above the plot. `late`: it is drawn dim."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    odd = sum(value is not None for value in values) - len(known)
    if not known:
        title = [Segment(fit(f"{curve.name}: {odd} NaN or Inf", width), look.severity["warning"])]
        return [title, *[[Segment(" " * width)] for _ in range(height - 1)]]
    points = bucketed(values, width * (2 if look.glyphs.braille else 1))
    plain = [None if value is None or not math.isfinite(value) else value for value in points]
    low, high = min(known), max(known)
    words = fit(_title(curve, low, high, odd, width), width)
    title = [Segment(words, look.severity["warning"] if odd else look.dim)]
    if high - low < 0.02 * abs(high):  # noises of a flat curve are not to fill the height
        low, high = low - 0.05 * abs(high), high + 0.05 * abs(high)
    style: Style = look.dim if late else look.severity["ok"]
    picture = line_of(plain, low, high, width, max(1, height - 1), look.glyphs)
    return [title, *[[Segment(line, style)] for line in picture]]


def _title(curve: Curve, low: float, high: float, odd: int, width: int) -> str:
    """Return the curve's name and range, `loss 2.12 to 2.23`, with fewer digits if space is short."""
    tail = f", {odd} NaN or Inf" if odd else ""
    text = curve.name
    for digits in (3, 2, 1):
        least, most = (scaled_text(v, 1000) if curve.many else f"{v:.{digits}g}" for v in (low, high))
        text = f"{curve.name} {least} to {most}{tail}" if least != most else f"{curve.name} {least}{tail}"
        if len(text) <= width:
            return text
    return text.replace("tokens/s", "tok/s")
