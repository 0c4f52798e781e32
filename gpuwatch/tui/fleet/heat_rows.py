"""The rows of the heat map: nodes with a cell per GPU, or groups with a cell per node."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.fleet.folding.groups import NodeGroup
from gpuwatch.tui.fleet.heat_cells import Cell, CellPainter
from gpuwatch.tui.fleet.node_filter import Shown
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.text import absent_words

Place = tuple[int, int]
"""(row, cell): indices of a node and its GPU, or of a group and its node."""


class HeatRows(Protocol):
    """The rows of a heat map; a row is a name and its cells."""

    names: Sequence[str]

    def counts(self) -> list[int]:
        """Return the number of cells of each row."""
        ...

    def stamp(self, row: int) -> Hashable:
        """Return a value that is equal while the row's cells stay the same."""
        ...

    def label(self, row: int) -> tuple[Severity, bool]:
        """Return a row's severity, and True if its node (each node of its group) is stale or connecting."""
        ...

    def words(self, row: int) -> str:
        """Return why a row has no cells; "" if it has."""
        ...

    def cells(self, row: int, start: int, stop: int, painter: CellPainter, now: float) -> list[Cell]:
        """Return the cells `start` to `stop` - 1 of a row."""
        ...

    def at(self, place: Place) -> tuple[NodeView, Gpu | None]:
        """Return (node, GPU) at a place; the GPU is None if the cell has none, or one that never reported."""
        ...

    def place_of(self, name: str) -> Place | None:
        """Return the place of the first cell of the node with this name; None if it is not shown."""
        ...

    def first_match(self) -> Place | None:
        """Return the place of the first cell that matches the filter of GPUs; None if all or none do."""
        ...


class GpuRows:
    """A row for each node, a cell for each GPU."""

    def __init__(self, shown: Shown) -> None:
        self._shown, self._views = shown, shown.views
        self.names: Sequence[str] = shown.names
        self._counts = [view.cells for view in shown.views]

    def counts(self) -> list[int]:
        """Return the larger of the known and the expected GPUs of each node."""
        return self._counts

    def stamp(self, row: int) -> Hashable:
        return self._views[row].stamp

    def label(self, row: int) -> tuple[Severity, bool]:
        view = self._views[row]
        return view.severity, view.state in ("stale", "connecting")

    def words(self, row: int) -> str:
        view = self._views[row]
        return "" if view.cells else absent_words(view.node)

    def cells(self, row: int, start: int, stop: int, painter: CellPainter, now: float) -> list[Cell]:
        view, wanted = self._views[row], self._shown.gpus
        gpus = view.gpus[start:stop]
        cells = painter.cells(view, gpus, now)
        if wanted is not None:
            cells = [
                cell if gpu.info.uuid in wanted else painter.left_out
                for gpu, cell in zip(gpus, cells, strict=True)
            ]
        absent = painter.never_seen if view.gpus or view.state == "lost" else painter.missing
        return cells + [absent] * (stop - start - len(cells))

    def at(self, place: Place) -> tuple[NodeView, Gpu | None]:
        view = self._views[place[0]]
        return view, view.gpus[place[1]] if place[1] < len(view.gpus) else None

    def place_of(self, name: str) -> Place | None:
        return (self.names.index(name), 0) if name in self.names else None

    def first_match(self) -> Place | None:
        wanted = self._shown.gpus or ()
        places = (
            (n, g)
            for n, view in enumerate(self._views)
            for g, gpu in enumerate(view.gpus)
            if gpu.info.uuid in wanted
        )
        return next(places, None)


class NodeRows:
    """A row for each group of a folded fleet, a cell for each node."""

    def __init__(self, groups: list[NodeGroup]) -> None:
        self._groups = groups
        self.names: Sequence[str] = tuple([group.name for group in groups])
        self._counts = [len(group.views) for group in groups]

    def counts(self) -> list[int]:
        """Return the number of nodes of each group."""
        return self._counts

    def stamp(self, row: int) -> Hashable:
        return tuple([view.stamp for view in self._groups[row].views])

    def label(self, row: int) -> tuple[Severity, bool]:
        group = self._groups[row]
        return group.severity, all(view.state in ("stale", "connecting") for view in group.views)

    def words(self, row: int) -> str:  # noqa: ARG002 - a group has nodes
        return ""

    def cells(self, row: int, start: int, stop: int, painter: CellPainter, now: float) -> list[Cell]:
        return [painter.node_cell(view, now) for view in self._groups[row].views[start:stop]]

    def at(self, place: Place) -> tuple[NodeView, Gpu | None]:
        return self._groups[place[0]].views[place[1]], None

    def place_of(self, name: str) -> Place | None:
        for row, group in enumerate(self._groups):
            for cell, view in enumerate(group.views):
                if view.name == name:
                    return row, cell
        return None

    def first_match(self) -> Place | None:
        return None
