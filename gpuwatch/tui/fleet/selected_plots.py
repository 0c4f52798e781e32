"""The plots of the GPU under the cursor, below the node table of a tall and wide screen."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.fleet.heat_map import HeatMap
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.node.gpu_plots import MIN_PLOT_LINES, PLOTS, WINDOWS, plot_rows
from gpuwatch.tui.node.gpu_subject import Subject, incident_marks
from gpuwatch.tui.toolkit.lines.rows import Row, heading
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import clean

MIN_LINES = MIN_PLOT_LINES * len(PLOTS) + 2
"""Lines of the plots with their heading and time axis, at least."""


class SelectedPlots(RebuiltPage, can_focus=False):
    """The widget with the histories of the GPU under the cursor of the heat map; rebuilt once per second."""

    DEFAULT_CSS: ClassVar[str] = "SelectedPlots { height: 1fr; overflow-y: hidden; }"

    def __init__(self, heat: HeatMap) -> None:
        super().__init__(id="fleet-plots")
        self._heat = heat
        self._made_for: Hashable = None

    def fits(self, lines: int) -> bool:
        """Return True if a GPU is under the cursor and its plots fit this number of lines."""
        return lines >= MIN_LINES and self._selected() is not None

    def _selected(self) -> tuple[NodeView, Gpu] | None:
        """Return the GPU under the cursor with its node; None if no GPU is there, as on a folded map."""
        view, gpu = self._heat.chosen() or (None, None)
        return None if view is None or gpu is None else (view, gpu)

    def prepare(self) -> None:
        """Rebuild the plots for another GPU or size, and once per second."""
        selected, state = self._selected(), self.view_state
        place = None if selected is None else (selected[0].name, selected[1].info.uuid)
        shape = (self.columns, self.size.height, id(self.look))
        made_for = (place, int(state.now), id(state.snapshot), shape)
        if made_for != self._made_for:
            self._made_for = made_for
            super().prepare()

    def build(self, width: int) -> list[Row]:
        selected, state = self._selected(), self.view_state
        if selected is None:
            return []
        (view, gpu), wall = selected, state.wall()
        marks = incident_marks(view.node, state.snapshot.incidents, wall)
        subject = Subject(gpu, view.node, view, state.now, marks)
        plots = plot_rows(subject, WINDOWS[0], wall, width, self.size.height - 1, self.look)
        return [heading(f"{clean(view.name)} GPU {gpu.info.index}", width, self.look), *plots]
