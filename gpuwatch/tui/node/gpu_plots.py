"""Plots of the histories of one GPU over a time axis, on which incidents are marked."""

from __future__ import annotations

import time
from collections.abc import Hashable

from rich.segment import Segment
from rich.style import Style

from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.node.gpu_subject import (
    IncidentStart,
    Subject,
    incident_marks,
    mark_columns,
    mark_styles,
)
from gpuwatch.tui.toolkit.charts import marked, plot, upright
from gpuwatch.tui.toolkit.lines.rows import Row, heading
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, clean
from gpuwatch.tui.toolkit.text import trouble_of

WINDOWS = ((120.0, "2 minutes"), (900.0, "15 minutes"), (86_400.0, "24 hours"))
PLOTS = ("util", "mem", "power", "temp", "smclk", "tensor")
EDGE_CELLS = 7
"""Number of cells to the left of a plot, for the ends of its scale."""
MIN_PLOT_LINES = 3
"""Minimum number of lines of a plot, its title included."""
MIN_LINES = MIN_PLOT_LINES * len(PLOTS) + 2
"""Minimum number of lines of all plots with a heading and the time axis."""
TICK_STEPS_S = (10, 30, 60, 120, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400)
SECONDS_BELOW_S = 600.0
"""The axis of a shorter window (seconds) shows clock times with seconds."""


def plot_rows(
    subject: Subject, window: tuple[float, str], wall: float, width: int, height: int, look: StyleSet
) -> list[Row]:
    """Return the lines with the plots of all histories, each with its title, above one time axis.

    `window` is a time in seconds and its name; `wall` is its end (unix seconds). The plots share `height`
    lines.
    """
    seconds, words = window
    each, more = divmod(max(MIN_PLOT_LINES * len(PLOTS), height - 1), len(PLOTS))
    cells = max(10, width - EDGE_CELLS - 1)
    points = cells * 2 if look.glyphs.braille else cells
    marks = mark_columns(subject.marks, seconds, cells)
    styles = mark_styles(marks, look)
    rows: list[Row] = []
    for number, name in enumerate(PLOTS):
        metric = METRICS[name]
        low, high = metric.scale(subject.gpu) or (0.0, 100.0)
        if name == "mem":
            low, high = 0.0, 100.0
        series = subject.gpu.history.series(name, seconds, points, subject.now)
        values = [None if value != value else float(value) for value in series]  # noqa: PLR0124 - NaN is not itself
        unit = " MHz" if name == "smclk" else ""
        rows.append(heading(f"{metric.title} {subject.text(name)}{unit}", width, look, words))
        lines = plot(values, low, high, cells, each - (number >= more), look.glyphs)
        for index, line in enumerate(lines):
            edge = (
                metric.format(high) if index == 0 else metric.format(low) if index == len(lines) - 1 else ""
            )
            head = Segment(f"{edge.strip():>{EDGE_CELLS - 1}} ", look.dim)
            rows.append((head, *marked(line, styles, look, look.severity["ok"])))
    return [*rows, (Segment(" " * EDGE_CELLS), *axis_row(marks, wall, seconds, cells, look))]


def axis_row(
    marks: dict[int, IncidentStart], wall: float, seconds: float, cells: int, look: StyleSet
) -> list[Segment]:
    """Return the time axis of `cells` cells: clock times at round moments, and the marks of incidents.

    Args:
        marks: Column -> the incident that began there.
        wall: The right end of the axis (unix seconds).
        seconds: The length of the axis.
        cells: Its width.
        look: The styles.
    """
    line, inks = [" "] * cells, [look.dim] * cells

    def write(words: str, column: int, ink: Style) -> bool:
        end = column + len(words)
        free = end <= cells and not "".join(line[max(0, column - 1) : end + 1]).strip()
        if free:
            line[column:end], inks[column:end] = words, [ink] * len(words)
        return free

    for column, mark in marks.items():
        sign, text, ink = (
            look.glyphs.severity[mark.sign],
            clock_text(mark.at, seconds),
            look.severity[mark.severity],
        )
        before = max(0, column - len(text) - 1)
        if not (write(f"{sign} {text}", column, ink) or write(f"{text} {sign}", before, ink)):
            write(sign, column, ink)
    for column, text in _ticks(wall, seconds, cells):
        if not write(f"{upright(look.glyphs)}{text}", column, look.dim):
            write(upright(look.glyphs), column, look.dim)
    return [Segment(letter, ink) for letter, ink in zip(line, inks, strict=True)]


def _ticks(wall: float, seconds: float, cells: int) -> list[tuple[int, str]]:
    """Return (column, clock) of the round moments of the window, as many as fit side by side."""
    label = len(clock_text(wall, seconds)) + 3
    step = next((each for each in TICK_STEPS_S if each * cells >= label * seconds), TICK_STEPS_S[-1])
    east = time.localtime(wall).tm_gmtoff
    moment = ((wall - seconds + east) // step + 1) * step - east
    found: list[tuple[int, str]] = []
    while moment <= wall:
        found.append((int((moment - wall + seconds) * cells / seconds), clock_text(moment, seconds)))
        moment += step
    return found


def clock_text(at: float, seconds: float) -> str:
    """Return a moment (unix seconds) in local time for an axis of this length: `08:33:10`, or `08:33`."""
    return time.strftime("%H:%M:%S" if seconds < SECONDS_BELOW_S else "%H:%M", time.localtime(at))


class GpuPlotsPage(RebuiltPage, can_focus=False):
    """The base of widgets with the histories of one GPU under a heading; rebuilt once per second."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._made_for: Hashable = None

    def selected(self) -> tuple[NodeView, Gpu] | None:
        """Return the GPU with its node; None if there is none. Subclasses implement it."""
        raise NotImplementedError

    def window(self) -> tuple[float, str]:
        """Return the length of the time axis in seconds, and its name."""
        return WINDOWS[0]

    def fits(self, lines: int) -> bool:
        """Return True if there is a GPU and its plots fit this number of lines."""
        return lines >= MIN_LINES and self.selected() is not None

    def prepare(self) -> None:
        """Rebuild the plots for another GPU or size, and once per second."""
        selected, state = self.selected(), self.view_state
        place = None if selected is None else (selected[0].name, selected[1].info.uuid)
        shape = (self.columns, self.size.height, id(self.look))
        made_for = (place, int(state.now), id(state.snapshot), shape)
        if made_for != self._made_for:
            self._made_for = made_for
            super().prepare()

    def build(self, width: int) -> list[Row]:
        selected, state = self.selected(), self.view_state
        if selected is None:
            return []
        (view, gpu), wall = selected, state.wall()
        marks = incident_marks(view.node, state.snapshot.incidents, wall)
        subject = Subject(gpu, view.node, view, state.now, marks)
        plots = plot_rows(subject, self.window(), wall, width, self.size.height - 1, self.look)
        trouble = trouble_of(gpu, state.now) or ("" if view.state == "live" else f"node {view.state}")
        return [heading(f"{clean(view.name)} GPU {gpu.info.index}", width, self.look, clean(trouble)), *plots]
