"""The screen of one GPU: every value with its age, its histories, its alerts and events."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace
from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank
from gpuwatch.tui.actions.action_targets import about_place
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.node.alerts_pane import alert_rows, code_at
from gpuwatch.tui.node.gpu_details import fact_rows
from gpuwatch.tui.node.gpu_plots import WINDOWS, plot_rows
from gpuwatch.tui.node.gpu_subject import Subject, incident_marks
from gpuwatch.tui.node.panes import event_row
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import clean, fit
from gpuwatch.tui.toolkit.text import rank_text, trouble_of, trouble_severity


class GpuPage(RebuiltPage):
    """The base of the parts of `GpuScreen`, each about the GPU of that screen."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.window = WINDOWS[0]
        self.at = 1

    def subject(self) -> Subject | None:
        """Return the subject of the screen, its GPU with the node; None if the GPU is no longer known."""
        screen = self.screen
        if not isinstance(screen, GpuScreen):
            return None
        view = self.cockpit.overview.views.get(screen.place[0])
        gpu = self.view_state.gpu(*screen.place)
        return Subject(gpu, view.node, view, self.view_state.now) if view and gpu else None

    def build(self, width: int) -> list[Row]:
        subject = self.subject()
        return [] if subject is None else self.rows_for(subject, width)

    def rows_for(self, subject: Subject, width: int) -> list[Row]:
        """Return the lines about the GPU; subclasses implement it."""
        raise NotImplementedError


class GpuTitle(GpuPage, can_focus=False):
    """The line with the GPU's name and its problem."""

    DEFAULT_CSS: ClassVar[str] = "GpuTitle { height: 1; background: $surface; overflow-y: hidden; }"

    def rows_for(self, subject: Subject, width: int) -> list[Row]:
        look, gpu = self.look, subject.gpu
        ranks, runs = rank_text(subject.node, gpu, subject.now)
        row = [
            Segment(f" {clean(subject.view.name)} GPU {gpu.info.index} ", look.brand),
            Segment(" "),
            look.mark(subject.severity),
            Segment(f" {clean(gpu.info.name)}  "),
            Segment(f"rank {ranks}  " if ranks else "", look.title if runs else look.dim),
        ]
        if trouble := trouble_of(gpu, subject.now):
            row.append(Segment(f" {clean(trouble)} ", look.badge[trouble_severity(gpu)]))
        if subject.view.state != "live":
            row.append(Segment(f" node {subject.view.state} ", look.badge["warning"]))
        held = ", ".join(subject.throttle())
        row.append(
            Segment(
                fit(f"  {held}", max(0, width - sum(s.cell_length for s in row))) if held else "", look.dim
            )
        )
        return [tuple(row)]


class GpuValues(GpuPage):
    """The part of `GpuScreen` with all values, alerts and events of the GPU."""

    DEFAULT_CSS: ClassVar[str] = "GpuValues { width: 2fr; min-width: 40; height: 1fr; }"

    def rows_for(self, subject: Subject, width: int) -> list[Row]:
        rows = fact_rows(subject, width, self.look)
        alerts = self.view_state.snapshot.at(subject.node.name, subject.gpu.info.index)
        if alerts:
            rows = [
                *rows,
                heading("Alerts", width, self.look, f"{self.cockpit.key_of('app.incidents')} shows all"),
            ]
            rows += [
                row for alert in alerts for row in alert_rows(alert, self.view_state.wall(), width, self.look)
            ]
        rows = [*rows, heading("Events", width, self.look)]
        own = [event for event in reversed(subject.node.events) if event.gpu == subject.gpu.info.uuid]
        for event in own:
            rows += event_row(event, self.view_state.wall(), width, self.look)
        return rows if own else [*rows, note("no events since start", self.look)]


class GpuPlots(GpuPage):
    """The part of `GpuScreen` with the plots of all histories."""

    DEFAULT_CSS: ClassVar[str] = "GpuPlots { width: 3fr; height: 1fr; }"

    def rows_for(self, subject: Subject, width: int) -> list[Row]:
        wall = self.view_state.wall()
        marks = incident_marks(subject.node, self.view_state.snapshot.incidents, wall)
        return plot_rows(replace(subject, marks=marks), self.window, wall, width, self.size.height, self.look)


class GpuScreen(LiveScreen):
    """The screen of the GPU with this node and UUID."""

    kind = "gpu"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.GPU]

    def __init__(self, name: str, uuid: str) -> None:
        super().__init__()
        self.place = (name, uuid)

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        with Vertical():
            yield GpuTitle(id="gpu-title")
            with Horizontal(id="gpu-body"):
                yield GpuPlots(id="gpu-plots")
                yield GpuValues(id="gpu-values")
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        self.query(GpuValues).focus()  # none is there when the app is ending

    def node_name(self) -> str | None:
        return self.place[0]

    def rank_place(self) -> PlacedRank | None:
        return self.cockpit.view_state.placement.on_gpu(*self.place)

    def explained(self) -> str:
        view, gpu = self.cockpit.overview.views.get(self.place[0]), self.cockpit.view_state.gpu(*self.place)
        return "" if gpu is None else code_at(self.cockpit.view_state.snapshot, view, gpu.info.index)

    def action_target(self) -> ActionTarget | None:
        gpu = self.cockpit.view_state.gpu(*self.place)
        index = None if gpu is None else gpu.info.index
        return None if gpu is None else about_place(self.cockpit.view_state, self.place[0], index)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing: open, and the next GPU if there is only one."""
        node = self.cockpit.view_state.node(self.place[0])
        return frozenset({"choose"} if node and len(node.gpus) > 1 else {"choose", "next_item"})

    def action_next_item(self, step: int) -> None:
        """Show the GPU of this node `step` places further, wrapping around."""
        node = self.cockpit.view_state.node(self.place[0])
        uuids = [gpu.info.uuid for gpu in node.gpu_list()] if node else []
        if self.place[1] in uuids:
            self.place = (self.place[0], uuids[(uuids.index(self.place[1]) + step) % len(uuids)])
            self.pull()

    def action_zoom(self) -> None:
        """Switch the plots to the next time window."""
        plots = self.query_one(GpuPlots)
        plots.window = WINDOWS[(WINDOWS.index(plots.window) + 1) % len(WINDOWS)]
        self.pull()
