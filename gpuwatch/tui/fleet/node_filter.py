"""Which nodes and GPUs the fleet screen shows, and in which order: filter, "only unhealthy", sorting."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.fleet.filter.filter import Filter, FilterError, parse
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.model.node_summary import NodeView, Overview, severity_level


class Shown:
    """The choice the person made, and what it comes to."""

    def __init__(self) -> None:
        self.text = ""
        self.error = ""
        self.unhealthy = False
        self.views: list[NodeView] = []
        """The nodes that are shown, in the plan's order."""
        self.gpus: set[str] | None = None
        """UUIDs that match; None: all of them."""
        self.names: tuple[str, ...] = ()
        """Of `views`."""
        self.version = 0
        self._filter: Filter | None = None
        self._seen: tuple[int, int, int] | None = None

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out."""
        return self._filter is not None or self.unhealthy

    def set_filter(self, text: str) -> None:
        """Take a filter expression; a wrong one leaves everything in and sets `error`."""
        self.text, self.error, self._filter = text, "", None
        try:
            self._filter = parse(text) if text.strip() else None
        except FilterError as error:
            self.error = str(error)
        self.version += 1

    def toggle_unhealthy(self) -> None:
        """Show only what is not healthy, or everything again."""
        self.unhealthy = not self.unhealthy
        self.version += 1

    def refresh(self, overview: Overview, order: Iterable[str], now: float) -> None:
        """Work out what is shown, if the nodes or the choice moved; filters may ask for ages."""
        seen = (overview.version, self.version, int(now * 2) if self.narrowed else 0)
        if seen == self._seen:
            return
        self._seen = seen
        views = [overview.views[name] for name in order if name in overview.views]
        if self.narrowed:
            self.gpus = set()
            views = [view for view in views if self._narrow(view, self.gpus, now)]
        else:
            self.gpus = None
        self.views, names = views, tuple([view.name for view in views])
        if names != self.names:
            self.names = names

    def _narrow(self, view: NodeView, found: set[str], now: float) -> bool:
        """Add the node's GPUs that are wanted; whether the node is shown."""
        matching = [gpu.info.uuid for gpu in view.gpus if self._wanted(view, gpu, now)]
        found.update(matching)
        return bool(matching) or ((self.unhealthy or not view.gpus) and self._node_wanted(view, now))

    def _wanted(self, view: NodeView, gpu: Gpu, now: float) -> bool:
        if (
            self.unhealthy
            and view.state == "live"
            and severity_level(view.gpu_severity[gpu.info.uuid]) < severity_level("warning")
        ):
            return False
        return self._filter is None or self._filter.matches(view.node, gpu, now)

    def _node_wanted(self, view: NodeView, now: float) -> bool:
        if self.unhealthy and severity_level(view.severity) < severity_level("unknown"):
            return False
        if self._filter is None:
            return True
        gpus: list[Gpu | None] = [*view.gpus] or [None]
        return any(self._filter.matches(view.node, gpu, now) for gpu in gpus)
