"""Screen 2: one node with its GPUs, and panes for processes, host, topology, health, alerts and events."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import TabbedContent, TabPane

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank
from gpuwatch.tui.actions.action_targets import about_place
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.model.alert_snapshot import kinds
from gpuwatch.tui.model.preferences import Table
from gpuwatch.tui.node.alerts_pane import NodeAlerts, code_at
from gpuwatch.tui.node.gpu_cards import GpuPanels
from gpuwatch.tui.node.header import NodeHeader
from gpuwatch.tui.node.panes import (
    Builder,
    NodePane,
    ProcessPane,
    digest,
    events,
    host,
    notices,
    processes,
    topology,
)
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen, set_height
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines

HOST = "host"
PANES: tuple[tuple[str, str, Builder], ...] = (
    ("processes", "Processes", processes),
    (HOST, "Host", host),
    ("topology", "Topology", topology),
    ("notices", "Health", notices),
    ("events", "Events", events),
)
ALERTS = ("alerts", "Alerts")
ALERTS_AT = 3
TABS = [(id_, title) for id_, title, _ in PANES]
TABS.insert(ALERTS_AT, ALERTS)
ENTER_AFTER_S = 1.0
"""Seconds for which a node is shown before it counts as entered: stepping through nodes connects to none."""
FRAME_LINES = 5
"""Lines of the status bar (2), the header, the tabs and the footer."""
LOWER_LINES = 8
"""Minimum number of lines for the lower panes."""


class NodeScreen(LiveScreen):
    """The screen of a node, with the cursor on a GPU."""

    kind = "node"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.NODE]

    def __init__(self, name: str, uuid: str | None = None) -> None:
        super().__init__()
        self._node = name
        self.header = NodeHeader(name)
        self.gpus = GpuPanels(name, uuid)
        self.tabs = TabbedContent(id="lower")
        self.side = NodePane(name, digest, id="side")
        self.panes = [
            ProcessPane(name) if id_ == "processes" else NodePane(name, builder, id=f"pane-{id_}")
            for id_, _, builder in PANES
        ]
        self.panes.insert(ALERTS_AT, NodeAlerts(name, id="pane-alerts"))

    def table_of_columns(self) -> Table:
        return "gpus" if self.focused is self.gpus else "processes"

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield self.header
        yield self.gpus
        with Horizontal(id="below"):
            with self.tabs:
                for (id_, title), pane in zip(TABS, self.panes, strict=True):
                    with TabPane(title, id=id_):
                        yield pane
            yield self.side
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        self.gpus.focus()
        self._enter_soon()
        self._open_first_pane()

    def _open_first_pane(self) -> None:
        """Show the pane of the host if the node has no GPU and no process listed: theirs is then empty."""
        node = self.cockpit.view_state.fleet.nodes.get(self._node)
        if node is None or node.hello is None or node.gpus or node.processes:
            return
        if self._has_tabs():
            self.tabs.active = HOST

    def _has_tabs(self) -> bool:
        """Return True once the tabs are mounted; False also if the screen is closed before."""
        return len(self.query("ContentTab")) >= len(TABS)

    def _enter_soon(self) -> None:
        """Connect to a node that Prometheus names, if it is still shown after a second."""
        name = self._node

        def enter() -> None:
            if self._node == name and self.is_current:
                self.cockpit.view_state.session.enter(name)

        self.set_timer(ENTER_AFTER_S, enter)

    def node_name(self) -> str | None:
        return self._node

    def explained(self) -> str:
        """Return the code of a problem of the GPU under the cursor, else of the node; "" without any."""
        reported, view = self.cockpit.view_state.snapshot, self.cockpit.overview.views.get(self._node)
        gpu = self.gpus.chosen() if self.focused is self.gpus else None
        own = "" if gpu is None else code_at(reported, view, gpu.info.index)
        return own or code_at(reported, view, None)

    def action_target(self) -> ActionTarget | None:
        gpu = self.gpus.chosen() if self.focused is self.gpus else None
        index = None if gpu is None else gpu.info.index
        return about_place(self.cockpit.view_state, self._node, index)

    def arrange_parts(self) -> None:
        """Set the height of the GPUs to what they need, but leave the panes their share."""
        body = self.size.height - FRAME_LINES
        self.gpus.room = max(3, body - min(LOWER_LINES, body // 2))
        self.gpus.prepare()
        set_height(self.gpus, max(2, min(self.gpus.room, self.gpus.count())))
        self._count_tabs()

    def _count_tabs(self) -> None:
        view = self.cockpit.overview.views.get(self._node)
        if view is None or not self._has_tabs():
            return
        counts = {"processes": len(view.node.processes), "events": len(view.node.events)}
        counts["alerts"] = sum(kinds(self.cockpit.view_state.snapshot.at(self._node)))
        for id_, title in TABS:
            label = f"{title} {counts[id_]}" if counts.get(id_) else title
            tab = self.tabs.get_tab(id_)
            if str(tab.label) != label:
                tab.label = label

    def rank_place(self) -> PlacedRank | None:
        gpu = self.gpus.chosen()
        return None if gpu is None else self.cockpit.view_state.placement.on_gpu(self._node, gpu.info.uuid)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now: next node of a single one, open without any GPU."""
        idle = set() if len(self.cockpit.view_state.fleet.nodes) > 1 else {"next_item"}
        return frozenset(idle if self.gpus.chosen() else idle | {"choose"})

    def action_next_item(self, step: int) -> None:
        """Show the node `step` places further in the plan, wrapping around.

        If the shown node is no longer among them, show the first (step 1) or the last (step -1).
        """
        names = list(self.cockpit.view_state.fleet.nodes)
        at = names.index(self._node) if self._node in names else min(step, 0) - step
        name = names[(at + step) % len(names)] if names else self._node
        self._node = self.header.node_name = self.gpus.node_name = name
        self.gpus.at = 0
        for pane in (*self.panes, self.side):
            pane.node_name, pane.at = name, 0
        self._enter_soon()
        self.pull()

    def action_pane(self, step: int) -> None:
        """Show the lower pane `step` places further."""
        names = [id_ for id_, _ in TABS]
        if not self._has_tabs():
            return
        self.tabs.active = names[(names.index(self.tabs.active) + step) % len(names)]
        self.call_after_refresh(self.pull)

    @on(TabbedContent.TabActivated)
    def _fill(self) -> None:
        self.call_after_refresh(self.pull)

    @on(SelectableLines.Chosen, "#gpus")
    def _open_gpu(self) -> None:
        if gpu := self.gpus.chosen():
            self.cockpit.show_gpu(self._node, gpu.info.uuid)
