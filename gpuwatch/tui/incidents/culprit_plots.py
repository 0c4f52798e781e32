"""The plots of the GPU of the shown incident, below the timeline of a tall and wide screen."""

from __future__ import annotations

from typing import ClassVar

from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.node.gpu_plots import WINDOWS, GpuPlotsPage


class CulpritPlots(GpuPlotsPage):
    """The widget with the histories of the culprit's GPU, on which the incident is marked."""

    DEFAULT_CSS: ClassVar[str] = "CulpritPlots { width: 1fr; margin: 0 0 0 2; overflow-y: hidden; }"

    def __init__(self) -> None:
        super().__init__(id="culprit-plots")
        self.ident: str | None = None
        """Id of the shown incident; None: there is none."""

    def selected(self) -> tuple[NodeView, Gpu] | None:
        """Return the GPU of the incident with its node; None if the incident names none, or it is unknown."""
        incident = self.view_state.snapshot.incident(self.ident)
        if incident is None or incident.node is None or incident.gpu is None:
            return None
        view = self.cockpit.overview.views.get(incident.node)
        gpus = view.gpus if view else ()
        gpu = next((each for each in gpus if each.info.index == incident.gpu), None)
        return None if view is None or gpu is None else (view, gpu)

    def window(self) -> tuple[float, str]:
        """Return the shortest window (seconds, name) that contains the incident's start, else the longest."""
        incident = self.view_state.snapshot.incident(self.ident)
        age = self.view_state.wall() - incident.first if incident else 0.0
        return next((each for each in WINDOWS if age < each[0]), WINDOWS[-1])
