"""Selects the nodes and GPUs that the fleet screen shows, by the filter and "only unhealthy"."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.filter.filter import Filter, FilterError, parse
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.rules.compiling.check import PatternError
from gpuwatch.tui.fleet.folding.groups import NodeGroup, grouped
from gpuwatch.tui.fleet.folding.ways import Folding
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot
from gpuwatch.tui.model.node_summary import NodeView, Overview, severity_level


class Shown:
    """The user's selection (filter, only unhealthy), and the nodes and GPUs that match it."""

    def __init__(self) -> None:
        self.text = ""
        self.error = ""
        self.unhealthy = False
        self.views: list[NodeView] = []
        """The shown nodes, in the plan's order."""
        self.gpus: set[str] | None = None
        """UUIDs that match; None: all."""
        self.names: tuple[str, ...] = ()
        """The names in `views`."""
        self.version = 0
        self.folding: Folding | None = None
        """How the nodes are folded into groups; None: not."""
        self._groups: list[NodeGroup] = []
        self._grouped: list[NodeView] | None = None
        """The `views` that `_groups` were made of."""
        self._filter: Filter | None = None
        self._seen: tuple[int, int, int, int] | None = None
        self._snapshot = AlertSnapshot()
        self._worst: dict[str, Alert] = {}
        """Node -> its worst firing alert in `_snapshot`."""
        self._probed: dict[str, Alert] = {}
        """Node -> its first alert in `_snapshot` from the link probe."""

    @property
    def narrowed(self) -> bool:
        """True if a filter is set or only unhealthy nodes are shown."""
        return self._filter is not None or self.unhealthy

    @property
    def groups(self) -> list[NodeGroup]:
        """The groups of the shown nodes; empty if nodes are not folded."""
        if self.folding is None:
            return []
        if self._grouped is not self.views:
            self._grouped = self.views
            self._groups = grouped(self.views, self.folding)
        return self._groups

    def fold(self, way: Folding | None) -> None:
        """Fold the nodes by `way`; None: do not fold them."""
        if way is not self.folding:
            self.folding = way
            self._grouped = None
            self.version += 1

    def set_filter(self, text: str) -> None:
        """Set a filter expression; an invalid one sets `error` and filters nothing."""
        self.text, self.error, self._filter = text, "", None
        try:
            self._filter = parse(text) if text.strip() else None
        except FilterError as error:
            self.error = str(error)
        self.version += 1

    def toggle_unhealthy(self) -> None:
        """Switch between showing only unhealthy nodes and GPUs, and all."""
        self.unhealthy = not self.unhealthy
        self.version += 1

    def counts_text(self, nodes: int, gpus: int) -> str:
        """Return how much is shown, such as `3 of 16 nodes, 9 of 128 GPUs, unhealthy only`."""
        shown = sum(len(view.gpus) for view in self.views) if self.gpus is None else len(self.gpus)
        text = f"{len(self.views)} of {nodes} nodes, {shown} of {gpus} GPUs"
        return f"{text}, unhealthy only" if self.unhealthy else text

    def alert_of(self, view: NodeView) -> Alert | None:
        """Return the worst firing alert of a node without GPUs, else its alert from the link probe.

        None if a condition is as severe.
        """
        alert = (self._probed if view.gpus else self._worst).get(view.name)
        worse = alert is not None and severity_level(alert.severity) > severity_level(view.severity)
        return alert if worse else None

    @property
    def has_alerts(self) -> bool:
        """True if `alert_of` any shown node is an alert."""
        return any(self.alert_of(view) is not None for view in self.views)

    def take(self, snapshot: AlertSnapshot) -> None:
        """Use these alerts from now on."""
        if snapshot is not self._snapshot:
            self._snapshot, self._worst = snapshot, snapshot.worst_by_node()
            self._probed = {each.node: each for each in reversed(snapshot.probed) if each.node is not None}

    def refresh(self, overview: Overview, order: Iterable[str], now: float) -> None:
        """Update `views`, `gpus` and `names` if nodes, alerts or selection changed; if filtered, every 0.5 s.

        `order` are the names of the nodes in display order; `now` is in monotonic seconds. A filter that
        takes too long is dropped and sets `error`.
        """
        seen = (overview.version, self.version, int(now * 2) if self.narrowed else 0, id(self._snapshot))
        if seen == self._seen:
            return
        self._seen = seen
        whole = views = [overview.views[name] for name in order if name in overview.views]
        self.gpus = set() if self.narrowed else None
        try:
            views = whole if self.gpus is None else [v for v in whole if self._narrow(v, self.gpus, now)]
        except PatternError as error:
            self.error, self._filter = str(error), None
            views, self.gpus = whole, None
        self.views, names = views, tuple([view.name for view in views])
        if names != self.names:
            self.names = names

    def _narrow(self, view: NodeView, found: set[str], now: float) -> bool:
        """Add the UUIDs of the node's matching GPUs to `found`; return True if the node is shown."""
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
        healthy = severity_level(view.severity) < severity_level("unknown")
        if self.unhealthy and healthy and self.alert_of(view) is None:
            return False
        if self._filter is None:
            return True
        gpus: list[Gpu | None] = [*view.gpus] or [None]
        return any(self._filter.matches(view.node, gpu, now) for gpu in gpus)
