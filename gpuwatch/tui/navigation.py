"""Navigation between the screens."""

# ruff: noqa: PLC0415  a screen is imported when it is first opened: the first paint needs the fleet alone

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual import on
from textual.app import App

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.incidents.evidence_location import LogLocation, location_after, location_of, ranks_of
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen

if TYPE_CHECKING:
    from gpuwatch.tui.links.probe_view import LinkView
    from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
    from gpuwatch.tui.training.job_view import TrainingView


class Navigation(App[None]):
    """An app with methods that open its screens and dialogs."""

    view_state: ViewState
    preferences: Preferences
    state_folder: Path | None
    """The folder for bookmarks; None: they are not saved."""
    _last_node: str | None = None
    _turn: tuple[str, int | None] = "", None
    """(incident, rank) of the line that was opened last."""

    @cached_property
    def workspace(self) -> LogWorkspace:
        """The selection of logs and the bookmarks; they survive leaving the logs screen."""
        from gpuwatch.tui.logs.search.bookmark_file import BookmarkFile
        from gpuwatch.tui.logs.workspace.workspace import LogWorkspace

        kept = (
            self.state_folder if not self.view_state.demo else None
        )  # the demo writes other lines every time
        marks = BookmarkFile(kept / "bookmarks.json") if kept else None
        return LogWorkspace(self.view_state, marks, self.key_of)

    @cached_property
    def links(self) -> LinkView:
        """The view of the selected probe, which survives leaving the links screen; made at the first use."""
        from gpuwatch.tui.links.probe_view import LinkView

        return LinkView(self.view_state)

    @cached_property
    def training(self) -> TrainingView:
        """The view of the selected job, which survives leaving the training screen; made at the first use."""
        from gpuwatch.tui.training.job_view import TrainingView

        return TrainingView(self.view_state)

    def key_of(self, name: str) -> str:
        """Return the current key of a binding, by the binding's id."""
        return keys.key_of(name, self.preferences.keys)

    @property
    def where(self) -> str:
        """The kind of the shown screen; "" for a dialog."""
        return self.screen.kind if isinstance(self.screen, LiveScreen) else ""

    def prefer_of(self, name: str, table: str, value: object) -> None:
        """Apply and save a table's entry of a setting such as `sort`; an empty value restores the default."""
        known = dict(getattr(self.preferences, name))
        known.pop(table, None)
        self.prefer(name, {**known, table: value} if value else known)

    def pump(self) -> None:
        """Process what was received, and repaint changes."""
        raise NotImplementedError

    def prefer(self, name: str, value: object) -> None:
        """Apply and save a setting that was changed on the screen."""
        raise NotImplementedError

    def show_node(self, name: str, uuid: str | None = None) -> None:
        """Open the screen of a node over the fleet screen, the cursor on this GPU (UUID) or the first."""
        from gpuwatch.tui.node.screen import NodeScreen

        self.action_fleet()
        self._last_node = name
        self.push_screen(NodeScreen(name, uuid))

    def show_gpu(self, name: str, uuid: str) -> None:
        """Open the screen of a GPU, over its node's."""
        from gpuwatch.tui.node.gpu_screen import GpuScreen

        if self.where != "node":
            self.show_node(name, uuid)
        self.push_screen(GpuScreen(name, uuid))

    def shown_incident(self) -> Incident | None:
        """Return the incident that the screen shows, else the leading one, else None."""
        from gpuwatch.tui.incidents.screen import IncidentsScreen

        shown = self.screen.incident() if isinstance(self.screen, IncidentsScreen) else None
        return shown or self.view_state.snapshot.leading

    def show_metric(self, name: str) -> None:
        """Go to the fleet screen, and show this metric on the heat map."""
        from gpuwatch.tui.fleet.screen import FleetScreen

        self.action_fleet()
        if isinstance(self.screen, FleetScreen):
            self.screen.show_metric(name)

    def show_incidents(self, ident: str | None = None) -> None:
        """Open the incidents, with the cursor on `ident`; None: on the most important one."""
        from gpuwatch.tui.incidents.screen import IncidentsScreen

        self.clear_notifications()  # such as the one that names the key for this screen
        self.action_fleet()
        self.push_screen(IncidentsScreen(ident))

    def show_alert(self, alert: Alert, incident: Incident | None = None) -> None:
        """Open the log line of an alert; without one, of an exit its rank's log, else its GPU or node.

        If none of them is known, a notice states so.
        """
        if spot := location_of(alert):
            self._turn = incident.id if incident else "", alert.rank
            self._show_spot(spot, incident)
        elif alert in EXITS and alert.rank is not None and self.workspace.has_rank(alert.rank, alert.job):
            about = incident.id if incident else None
            self.show_logs(OpenRequest(ranks=(alert.rank,), at=alert.first, incident=about))
        elif node := self.view_state.fleet.nodes.get(alert.node or ""):
            gpu = next((gpu for gpu in node.gpu_list() if gpu.info.index == alert.gpu), None)
            self.show_place(node.name, None if gpu is None else gpu.info.uuid)
        else:
            self.notify("this alert has no log line and no node", timeout=3)

    def show_place(self, node: str, uuid: str | None) -> None:
        """Open a GPU, or without UUID a node, over the current screen."""
        from gpuwatch.tui.node.gpu_screen import GpuScreen
        from gpuwatch.tui.node.screen import NodeScreen

        self.push_screen(NodeScreen(node) if uuid is None else GpuScreen(node, uuid))

    def show_rank_of(self, incident: Incident) -> None:
        """Open the log line of the next rank of an incident, starting with the rank that failed first."""
        shown, rank = self._turn
        if spot := location_after(incident, rank if shown == incident.id else None):
            self._turn = incident.id, spot.rank
            self._show_spot(spot, incident)
        else:
            self.notify("no log line of this incident has a rank", timeout=3)

    def show_next_rank(self) -> None:
        """Open the next rank of the incident whose line was opened last, else of the leading incident."""
        reported = self.view_state.snapshot
        incident = reported.incident(self._turn[0]) or reported.leading
        if incident is None:
            rank = self.key_of("incident.rank")
            self.notify(f"no incident; {rank} steps through the ranks of an incident", timeout=3)
        else:
            self.show_rank_of(incident)

    def show_ranks_of(self, incident: Incident, alert: Alert | None) -> None:
        """Open the merged logs of all ranks of an incident's job, at the time of an alert or the incident."""
        at = incident.first if alert is None else alert.first
        job = self.view_state.placement.jobs.get(incident.job, {}) if incident.job else {}
        ranks, spot = ranks_of(incident, job), location_of(alert) if alert else None
        request = OpenRequest(at=at, ranks=tuple(ranks), merged=True, incident=incident.id)
        if spot is not None:
            request = replace(request, node=spot.node, file=spot.file, offset=spot.offset)
        self.show_logs(request)

    def _show_spot(self, spot: LogLocation, incident: Incident | None) -> None:
        ranks = () if spot.rank is None else (spot.rank,)
        about = incident.id if incident else None
        self.show_logs(OpenRequest(spot.node, spot.file, spot.offset, spot.at, ranks, incident=about))

    def action_fleet(self) -> None:
        """Return to the fleet screen, closing all others."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_node(self) -> None:
        """Open the node under the cursor, else the node shown last, else the first node."""
        if self.where == "node":
            return
        name = self.screen.node_name() if isinstance(self.screen, LiveScreen) else None
        name = name or self._last_node or next(iter(self.view_state.fleet.nodes), None)
        if name is not None:
            self.show_node(name)

    def action_incidents(self) -> None:
        """Open the incidents, with the cursor on the leading one."""
        from gpuwatch.tui.incidents.screen import IncidentsScreen

        if not isinstance(self.screen, IncidentsScreen):
            self.show_incidents()
        elif leading := self.view_state.snapshot.leading:
            self.screen.show(leading.id)

    @on(StatusLine.Clicked)
    def _open_banner(self) -> None:
        """Open the leading incident, after a click on the status bar."""
        if self.view_state.snapshot.leading is not None:
            self.action_incidents()

    def action_waiting(self) -> None:
        """Start a hang query about the shown or leading incident, and show its screen."""
        from gpuwatch.tui.hang.screen import WaitingScreen

        about = self.shown_incident()
        question = self.view_state.ask(None if about is None else about.id)
        if isinstance(self.screen, WaitingScreen):
            self.screen.renew(question)
        else:
            self.push_screen(WaitingScreen(question))

    def action_links(self) -> None:
        from gpuwatch.tui.links.screen import LinksScreen

        if self.where != "links":
            self.action_fleet()
            self.push_screen(LinksScreen(self.links))

    def action_training(self) -> None:
        from gpuwatch.tui.training.screen import TrainingScreen

        if self.where != "training":
            self.action_fleet()
            self.push_screen(TrainingScreen(self.training))

    def show_logs(self, request: OpenRequest) -> None:
        """Open the logs over the current screen."""
        from gpuwatch.tui.logs.screen import LogsScreen

        if isinstance(self.screen, LogsScreen):
            self.screen.lead(request)
        else:
            self.push_screen(LogsScreen(self.workspace, request))

    def action_logs(self) -> None:
        """Open the logs of a new or the shown incident, else the last selection, else the default one."""
        from gpuwatch.tui.incidents.screen import IncidentsScreen
        from gpuwatch.tui.logs.screen import LogsScreen

        if self.where != "logs":
            shown = self.screen.incident() if isinstance(self.screen, IncidentsScreen) else None
            self.push_screen(LogsScreen(self.workspace, about=shown))

    def action_filter(self) -> None:
        """Open the filter or search of this screen; if it has none, the filter of the fleet screen."""
        if isinstance(self.screen, LiveScreen) and self.screen.open_filter():
            return
        self.action_fleet()
        if isinstance(self.screen, LiveScreen):
            self.screen.open_filter()

    async def action_back(self) -> None:
        """Close what is open on the screen, else leave the screen."""
        if isinstance(self.screen, LiveScreen) and self.screen.step_back():
            return
        if len(self.screen_stack) > 1:
            self.pop_screen()

    async def action_back_or_quit(self) -> None:
        """Leave the screen; on the fleet screen, quit."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit()

    def action_jobs(self) -> None:
        """Open the dialog that selects the job to show alone; without any job, show that there is none."""
        from gpuwatch.tui.chrome.dialogs.jobs_screen import JobsScreen
        from gpuwatch.tui.model.job_scope import summaries

        view_state = self.view_state
        jobs = summaries(view_state.frozen_fleet or view_state.session.fleet, view_state.placement)
        if not jobs:
            self.notify("no job detected; jobs are detected by the processes of their ranks", timeout=3)
            return
        self.push_screen(JobsScreen(jobs, view_state.scope.job, view_state.wall()), self.show_job)

    def show_job(self, job: str | None) -> None:
        """Show one job alone ("": all, None: no change); leave the screen of a node of another job."""
        if job is None:
            return
        self.view_state.show_job(job or None)
        self.pump()
        node = self.screen.node_name() if isinstance(self.screen, LiveScreen) else None
        if self.where in ("node", "gpu") and node not in self.view_state.fleet.nodes:
            self.action_fleet()

    def action_columns(self) -> None:
        """Open the dialog that selects the columns of this screen's table."""
        from gpuwatch.tui.chrome.dialogs.columns_screen import ColumnsScreen
        from gpuwatch.tui.preferences.shape import TITLES, USUAL

        table = self.screen.table_of_columns() if isinstance(self.screen, LiveScreen) else None
        if table is None:
            fleet, node, training = map(self.key_of, ("app.fleet", "app.node", "app.training"))
            self.notify(
                f"no table with columns here; screens {fleet}, {node} and {training} have one", timeout=3
            )
            return
        wanted, usual = self.preferences.columns.get(table) or USUAL[table], list(USUAL[table])

        def take(names: list[str]) -> None:
            self.prefer_of("columns", table, [] if names == usual else names)

        self.push_screen(ColumnsScreen(table, TITLES[table], wanted, take))

    def action_help(self) -> None:
        """Open the help, or close it."""
        from gpuwatch.tui.chrome.help_screen import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.pop_screen()
        else:
            self.push_screen(HelpScreen(self.where, self.preferences.keys))
