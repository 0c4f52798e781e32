"""Chooses how the fleet screen folds the nodes into groups."""

from __future__ import annotations

from collections.abc import Hashable

from gpuwatch.hosts.plan import Plan
from gpuwatch.tui.fleet.folding.ways import Folding, foldings
from gpuwatch.tui.fleet.heat_layout import arrange
from gpuwatch.tui.fleet.node_filter import Shown


class FoldChoice:
    """The current way of folding: the user's choice, else the first way if not all GPUs fit."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ways: tuple[Folding, ...] | None = None
        self._chosen = False
        self._now: Folding | None = None
        self._settled_for: Hashable = None

    @property
    def ways(self) -> tuple[Folding, ...]:
        """The ways to fold the nodes of the plan, the best first."""
        if self._ways is None:
            self._ways = foldings(self._plan)
        return self._ways

    def settle(self, shown: Shown, width: int, lines: int) -> None:
        """Fold `shown` by the user's choice, else if a map of all its GPUs needs more than `lines` lines."""
        shape = (shown.names, sum([view.cells for view in shown.views]), width, lines)
        if not self._chosen and shape != self._settled_for:
            self._settled_for = shape
            layout = arrange(shown.names, [view.cells for view in shown.views], width, lines)
            self._now = None if layout.height() <= lines else next(iter(self.ways), None)
        shown.fold(self._now)

    def next(self) -> None:
        """Choose the next way; after the last one, do not fold."""
        at = 0 if self._now is None else self.ways.index(self._now) + 1
        self._chosen = True
        self._now = self.ways[at] if at < len(self.ways) else None
