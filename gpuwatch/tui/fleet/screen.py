"""Screen 1: every GPU in a heat map, every node in a table, and the problems."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Input, Label

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.tui.actions.action_targets import about_incident, about_place
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.fleet.fold_choice import FoldChoice
from gpuwatch.tui.fleet.heat_map import HeatMap
from gpuwatch.tui.fleet.node_columns import MEANING_OF
from gpuwatch.tui.fleet.node_filter import Shown
from gpuwatch.tui.fleet.node_table import NodeTable
from gpuwatch.tui.fleet.problems.side_panes import SidePanes
from gpuwatch.tui.fleet.selected_gpu import CellLine, SelectedPlots
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.node.gpu_cards import GpuPanels
from gpuwatch.tui.node.panes import NodePane, host
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen, set_height
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import clean

WIDE_COLUMNS = 100
BESIDE_COLUMNS = 150
"""From this width, the problem list may be beside the table."""
PANES_COLUMNS = 180
"""From this width, the problems are beside the table, the training job above them, plots below the table."""
FRAME_LINES = 4
"""Lines of the status bar (2), the line about a cell, and the footer."""
SITUATION_LINES = 4
"""Minimum number of lines of the problem list, if the screen has at least `TALL_ROWS` lines."""
TALL_ROWS = 20
MIN_HOST_WIDTH = 5
EXAMPLE = "temp>85 & host~=dgx"
"""The example in an empty filter field."""
LEGIBLE_SITUATION = 10
"""With fewer lines than this, the problem list is better placed beside the table."""


class FleetScreen(LiveScreen):
    """The fleet screen: filter, heat map, line of the selected GPU, node table, problem list."""

    kind = "fleet"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.FLEET]

    def __init__(self, view_state: ViewState) -> None:
        super().__init__()
        self.shown = Shown()
        self.folds = FoldChoice(view_state.plan)
        self.heat = HeatMap(self.shown)
        self.table = NodeTable(self.shown)
        self.side = SidePanes(view_state)
        self.situation = self.side.situation
        self.lower = Container(id="fleet-lower")
        self.plots = SelectedPlots(self.heat)
        self.filter_bar = Horizontal(id="filter-bar")
        self.field = Input(id="filter-text", compact=True)
        self.note = Label("", id="filter-note")
        self.panels: GpuPanels | None = None
        """The GPUs of a single node, shown under the table."""
        self.host: NodePane | None = None
        """The host of a single node without GPUs."""

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        with self.filter_bar:
            yield Label("/", id="filter-sign")
            yield self.field
            yield self.note
        yield self.heat
        yield CellLine(self.heat)
        nodes = self.cockpit.view_state.plan.nodes
        with self.lower:
            with Vertical(id="fleet-left"):
                yield self.table
                yield self.plots
                if len(nodes) == 1 and self.cockpit.view_state.folder is None:
                    self.panels = GpuPanels(nodes[0].name, None)
                    self.host = NodePane(nodes[0].name, host, id="host")
                    yield from (self.panels, self.host)
            yield self.side
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        preferred = self.cockpit.preferences
        self.heat.metric = METRICS[preferred.metric]
        self.table.take_order(preferred.sort.get("nodes", ""))
        self.filter_bar.display = self.plots.display = False
        over_logs = self.cockpit.view_state.folder is not None
        self.heat.display = self.query_one(CellLine).display = not over_logs
        (self.table if over_logs else self.heat).focus()

    def arrange_parts(self) -> None:
        """Set each part's height: the map gets what it needs, but leaves table and problems their share."""
        cockpit = self.cockpit
        self.shown.take(cockpit.view_state.snapshot)
        self.shown.refresh(cockpit.overview, cockpit.view_state.fleet.nodes, cockpit.view_state.now)
        body = self.size.height - FRAME_LINES - bool(self.filter_bar.display)
        least = SITUATION_LINES if self.size.height >= TALL_ROWS else 0
        whole_table = len(self.shown.views) + 1
        if cockpit.view_state.folder is not None:
            self._share_without_gpus(body + 1, whole_table)
            self._note()
            return
        self.heat.room = max(3, body - least - min(whole_table, max(4, (body - least) * 4 // 10)))
        self.folds.settle(self.shown, max(10, self.heat.across()), self.heat.room - 1)
        whole_table = self.table.wanted_height()
        self.heat.spare = 0 if self.panels else body - whole_table - LEGIBLE_SITUATION
        self.heat.prepare()
        set_height(self.heat, height := max(2, self.heat.wanted_height()))
        self._share(body - height, whole_table, least)
        self._note()

    def _share(self, rest: int, whole_table: int, least: int) -> None:
        """Divide the `rest` lines under the map between the table and the problems.

        `whole_table` are the lines of a complete table. The problems get `least` lines under it, or stand
        beside it on a wide screen.
        """
        wide = self.size.width >= PANES_COLUMNS and self.panels is None
        beside = wide or (
            self.size.width >= BESIDE_COLUMNS
            and self.panels is None
            and rest - whole_table < LEGIBLE_SITUATION
        )
        self.lower.set_class(beside, "-beside")
        self.plots.display = beside and self.plots.fits(rest - whole_table)
        table = min(whole_table, rest - least) if self.plots.display or not beside else rest
        set_height(self.table, table)
        if self.panels is not None:
            self.panels.room = max(2, rest - table - least)
            self.panels.prepare()
            panels = min(self.panels.room, self.panels.count())
            set_height(self.panels, panels)
            table += panels + self._share_with_host(rest - table - panels - least)
        self.side.share(rest, wide=wide)  # where it is too narrow for the job, what was mounted hides
        self.side.display = beside or rest - table >= min(least or 3, 3)

    def _share_without_gpus(self, rest: int, whole_table: int) -> None:
        """Set the heights for a folder of logs, which has no map: the problems get at least half."""
        beside = self.size.width >= BESIDE_COLUMNS and whole_table > rest // 2
        self.lower.set_class(beside, "-beside")
        set_height(self.table, rest if beside else min(whole_table, max(3, rest // 2)))
        self.side.share(rest, wide=False)

    def pull(self) -> int:
        """Repaint what has changed, and continue to compute the job; return the number of repainted lines."""
        painted = super().pull()
        if self.is_mounted:
            self.side.work()
        return painted

    def _share_with_host(self, room: int) -> int:
        """Show the host panel of a single node without GPUs if `room` lines suffice, else hide it.

        Returns its height in lines, 0 if it is hidden.
        """
        if self.host is None or self.panels is None:
            return 0
        self.host.display = room >= MIN_HOST_WIDTH and not self.panels.gpus()
        if not self.host.display:
            return 0
        self.host.prepare()
        lines = min(room, self.host.count())
        set_height(self.host, lines)
        return lines

    def _note(self) -> None:
        if not self.filter_bar.display:
            return
        shown, fleet = self.shown, self.cockpit.view_state.fleet
        if shown.error:
            text = shown.error
        else:
            text = shown.counts_text(len(fleet.nodes), sum(len(n.gpus) for n in fleet.nodes.values()))
            if self.focused is self.field and self.size.width >= WIDE_COLUMNS:
                text += f"   enter applies, {self.cockpit.key_of('app.back')} clears"
        self.note.set_class(bool(shown.error), "-error")
        text = clean(text)
        if str(self.note.content) != text:
            self.note.update(text, layout=True)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now, such as sorting one node, or "unhealthy" if all is well."""
        idle = set() if len(self.cockpit.overview.views) > 1 else {"sort"}
        idle |= {"folding"} if not self.folds.ways else set()
        idle |= {"unfold"} if not self.table.folded else set()
        if self.cockpit.view_state.folder is not None:
            idle |= {"next_mode"}
        some = self.cockpit.totals.worst or self.shown.unhealthy or self.shown.has_alerts
        return frozenset(idle if some else idle | {"unhealthy"})

    # ---- gestures

    def node_name(self) -> str | None:
        if self.focused is self.table:
            return view.name if (view := self.table.chosen()) else None
        if self.focused is self.situation and (entry := self.situation.chosen()):
            incident = self.cockpit.view_state.snapshot.incident(entry.incident) if entry.incident else None
            return entry.node or (incident.node if incident else None) or entry.opens or None
        return chosen[0].name if (chosen := self.heat.chosen()) else None

    def action_target(self) -> ActionTarget | None:
        view_state = self.cockpit.view_state
        entry = self.situation.chosen() if self.focused is self.situation else None
        if entry is not None and (incident := view_state.snapshot.incident(entry.incident)):
            return about_incident(incident)
        chosen = self.heat.chosen() if self.focused is self.heat else None
        gpu = entry.gpu if entry is not None else chosen[1] if chosen else None
        name = self.node_name()
        return about_place(view_state, name, None if gpu is None else gpu.info.index) if name else None

    def table_of_columns(self) -> Literal["nodes", "logs"]:
        return "nodes" if self.cockpit.view_state.folder is None else "logs"

    def copy_text(self) -> str:
        if self.focused is self.heat:
            return self.query_one(CellLine).copy_text().strip()
        return super().copy_text()

    @on(SelectableLines.Moved, "#heat")
    def _follow_cell(self) -> None:
        if chosen := self.heat.chosen():
            self.table.go_to_node(chosen[0].name)
        self.pull()

    @on(SelectableLines.Moved, "#nodes")
    def _follow_node(self) -> None:
        view = self.table.chosen()
        if view is not None and self.focused is self.table:
            self.heat.put_on_node(view.name)

    @on(SelectableLines.Chosen)
    def _drill(self, event: SelectableLines.Chosen) -> None:
        if event.picker is self.situation:
            if (entry := self.situation.chosen()) and entry.incident:
                self.cockpit.show_incidents(entry.incident)
            elif entry is not None and entry.gpu is not None:
                self.cockpit.show_gpu(entry.node, entry.gpu.info.uuid)
            elif name := self.node_name():
                self.cockpit.show_node(name)
            return
        if event.picker is self.table and self.table.unfold():
            return
        if (name := self.node_name()) is None:
            return
        if self.panels is not None and event.picker is self.panels:
            if one := self.panels.chosen():
                self.cockpit.show_gpu(name, one.info.uuid)
            return
        chosen = self.heat.chosen()
        gpu = chosen[1] if chosen and event.picker is self.heat else None
        self.cockpit.show_node(name, gpu.info.uuid if gpu else None)

    def action_next_mode(self, step: int) -> None:
        """Show the metric `step` places further on the map, and save it as a preference."""
        self.heat.cycle_metric(step)
        self.show_metric(self.heat.metric.name)

    def show_metric(self, name: str) -> None:
        """Show the metric of this name on the map, and save it as a preference."""
        self.heat.metric = METRICS[name]
        self.cockpit.prefer("metric", name)
        self.pull()

    def action_zoom(self) -> None:
        """Switch the map to the next cell size."""
        self.heat.cycle_zoom()
        self.pull()

    def action_unfold(self) -> None:
        self.table.unfold()

    def action_folding(self) -> None:
        self.folds.next()
        self.pull()

    def explained(self) -> str:
        if self.focused is self.table and self.table.sort_name:
            return MEANING_OF.get(self.table.sort_name, self.table.sort_name)
        entry = self.situation.chosen() if self.focused is self.situation else None
        return self.heat.metric.name if entry is None else entry.code

    def action_sort(self) -> None:
        self.table.sort_next()

    def action_reverse(self) -> None:
        self.table.reverse()

    def action_unhealthy(self) -> None:
        """Switch between showing only unhealthy nodes and GPUs, and all."""
        self.shown.toggle_unhealthy()
        self._show_filter_bar()
        self.pull()

    def step_back(self) -> bool:
        return self.close_filter()

    def open_filter(self) -> bool:
        self.filter_bar.display = True
        self.field.placeholder = EXAMPLE
        self.field.focus()
        return True

    def close_filter(self) -> bool:
        """Remove the filter, show healthy nodes again, and hide the filter's line.

        Returns False if there was none and that line was not shown; then nothing is changed.
        """
        if not (self.filter_bar.display or self.shown.narrowed):
            return False
        self.shown.unhealthy = False
        self.field.value = ""
        self.shown.set_filter("")
        self._show_filter_bar()
        self.heat.focus()
        self.pull()
        return True

    def _show_filter_bar(self) -> None:
        self.field.placeholder = ""  # an example would look like a filter
        self.filter_bar.display = self.shown.narrowed or bool(self.shown.text)

    @on(events.DescendantBlur, "#filter-text")
    def _left(self) -> None:
        if self.focused is not self.field:  # it may have been opened again since
            self._show_filter_bar()
            self.pull()

    @on(Input.Changed, "#filter-text")
    def _filter(self, event: Input.Changed) -> None:
        self.shown.set_filter(event.value)
        self.pull()

    @on(Input.Submitted, "#filter-text")
    def _done(self) -> None:
        if not self.shown.error:
            self._show_filter_bar()
            self.heat.focus()
            self.pull()
