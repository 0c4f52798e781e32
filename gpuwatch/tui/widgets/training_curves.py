"""Loss, gradient norm and step time over the told steps, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.training.facts import JobFacts
from gpuwatch.fleet.progress import Step
from gpuwatch.tui.graphs import plot
from gpuwatch.tui.look import Look, fit
from gpuwatch.tui.training_view import TrainingView
from gpuwatch.tui.widgets.lines import Page, Row

Read = Callable[[Step], "float | None"]
CURVES: tuple[tuple[str, Read], ...] = (
    ("loss", lambda step: step.loss),
    ("grad norm", lambda step: step.grad_norm),
    ("step s", lambda step: step.took_s),
)
GAP = 2


def bucketed(values: Sequence[float | None], count: int) -> list[float | None]:
    """At most `count` points: of many each is the mean of its share, of few each stays as it is."""
    if len(values) <= count:
        return list(values)
    points: list[float | None] = []
    for index in range(count):
        part = values[index * len(values) // count : (index + 1) * len(values) // count]
        known = [value for value in part if value is not None and math.isfinite(value)]
        points.append(math.fsum(known) / len(known) if known else None)
    return points


class TrainingCurves(Page, can_focus=False):
    """The curves of the voice that speaks for the job; `lines` is the height."""

    DEFAULT_CSS: ClassVar[str] = "TrainingCurves { height: 4; overflow-y: hidden; }"
    can_focus = False

    def __init__(self, view: TrainingView) -> None:
        super().__init__(id="training-curves")
        self.view = view
        self.lines = 4
        self._made_for: tuple[int, int, int, Look] | None = None
        self._made: list[Row] = []

    def build(self, width: int) -> list[Row]:
        """A title and the plot under it, for each curve."""
        facts = self.view.facts
        wanted = (self.view.version, width, self.lines, self.look)
        if wanted != self._made_for:
            self._made_for = wanted
            self._made = [] if facts is None or facts.speaker is None else self._draw(facts, width)
        return self._made

    def _draw(self, facts: JobFacts, width: int) -> list[Row]:
        look, steps = self.look, list(facts.speaker.steps) if facts.speaker else []
        cells = max(8, (width - 2 - GAP * (len(CURVES) - 1)) // len(CURVES))
        late = facts.late(facts.stepped_at, self.scene.now)
        columns = [
            curve(name, [read(step) for step in steps], cells, self.lines, look, late)
            for name, read in CURVES
        ]
        rows: list[Row] = []
        for line in range(self.lines):
            parts = [Segment(" ")]
            for number, column in enumerate(columns):
                parts += [Segment(" " * GAP)] if number else []
                parts += column[line]
            rows.append(tuple(parts))
        return rows


def curve(
    name: str, values: Sequence[float | None], width: int, height: int, look: Look, late: bool
) -> list[list[Segment]]:
    """One curve: a line that says between which values it runs, and the plot."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        words = fit(f"{name}: not told", width)
        return [[Segment(words, look.dim)], *[[Segment(" " * width)] for _ in range(height - 1)]]
    points = bucketed(values, width * (2 if look.glyphs.braille else 1))
    plain = [None if value is None or not math.isfinite(value) else value for value in points]
    low, high = min(known), max(known)
    if high - low < 0.02 * abs(high):  # noises of a flat curve are not to fill the height
        low, high = low - 0.05 * abs(high), high + 0.05 * abs(high)
    odd = len([value for value in values if value is not None]) - len(known)
    words = f"{name} {min(known):.3g}..{max(known):.3g}" + (f", {odd} NaN or Inf" if odd else "")
    style: Style = look.dim if late else look.severity["ok"]
    title = Segment(fit(words, width), look.severity["warning"] if odd else look.dim)
    picture = plot(plain, low, high, width, max(1, height - 1), look.glyphs)
    return [[title], *[[Segment(drawn, style)] for drawn in picture]]
