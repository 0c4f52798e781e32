"""The layout of the logs screen: which parts it shows, and how they share the space."""

from __future__ import annotations

from textual.app import ComposeResult

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.empty_state import why_empty
from gpuwatch.tui.logs.widgets.grid import LogGrid
from gpuwatch.tui.logs.widgets.pane import LogPane
from gpuwatch.tui.logs.widgets.prompt import LogPrompt
from gpuwatch.tui.logs.widgets.results import LogResults
from gpuwatch.tui.logs.widgets.toolbar import LogBar
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen

FRAME_LINES = 4
"""Lines of the status bar (2), the line about the selection, and the footer."""


class LogsLayout(LiveScreen):
    """The logs screen without its keys: toolbar, log panes of the workspace, list of hits or bookmarks."""

    kind = "logs"

    def __init__(
        self, workspace: LogWorkspace, wanted: OpenRequest | None = None, about: Incident | None = None
    ) -> None:
        """Create the screen for a workspace.

        Args:
            workspace: The selection of logs, which survives this screen.
            wanted: What to open first.
            about: The incident that was shown on the previous screen.
        """
        super().__init__()
        self.workspace = workspace
        self.opened = workspace.opened
        self.bar = LogBar(workspace)
        self.grid = LogGrid(workspace)
        self.results = LogResults(workspace)
        self.prompt = LogPrompt()
        self._wanted, self._about = wanted, about
        self._last = self.grid.panes[0]

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield self.bar
        yield self.prompt
        yield self.grid
        yield self.results
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        """Open what was requested, else logs of a new incident, else the last selection or the default."""
        self.prompt.display = self.results.display = False
        for pane in self.grid.panes:
            pane.empty = self._why_empty
        if self._wanted is not None:
            self.workspace.open(self._wanted)
        else:
            self.workspace.reopen(self._about)
        self.arrange_parts()
        self.grid.panes[0].focus()

    def lead(self, wanted: OpenRequest) -> None:
        """Open other logs on this screen."""
        if not self.is_mounted:
            self._wanted = wanted
            return
        self.workspace.open(wanted)
        self.grid.zoomed = self.results.display = self.prompt.display = False
        self._last = self.grid.panes[0]
        self.grid.panes[0].focus()
        self.pull()

    def on_unmount(self) -> None:
        self.workspace.leave()

    def _why_empty(self) -> list[str]:
        return why_empty(self.cockpit.view_state.fleet, self.cockpit.view_state.now)

    # ---- once a frame

    def arrange_parts(self) -> None:
        """Process what was received, and assign a view to every pane."""
        workspace = self.workspace
        workspace.pull()
        if not workspace.sources:
            workspace.choose_for_them()
        if workspace.mode == "panes":
            height = self.size.height - FRAME_LINES - bool(self.prompt.display)
            height -= self.size.height // 3 if self.results.display else 0
            self.grid.one_by_one(self.size.width, height, self.focused)
            self.bar.shown = self.grid.shown
        else:
            self.grid.merged()
        if self.focused is not None and not self.focused.display:
            self.grid.panes[0].focus()

    @property
    def pane(self) -> LogPane:
        """The pane that has the focus, or had it last."""
        if isinstance(self.focused, LogPane):
            self._last = self.focused
        return self._last if self._last.display else self.grid.panes[0]

    @property
    def view(self) -> View | None:
        """The view of `pane`; None if that pane shows no log."""
        return self.pane.view

    def node_name(self) -> str | None:
        view = self.view
        if view is None or not view.feed.base <= view.cursor < view.feed.end:
            return None
        return view.feed.place(view.cursor)[0].node

    def copy_text(self) -> str:
        return self.results.copy_text() if self.focused is self.results else self.pane.copy_text()

    def show_line(self, source: LogSource, offset: int) -> None:
        """Jump to the line at a byte offset of a file, in its pane; the file is opened if necessary."""
        workspace = self.workspace
        if workspace.mode != "panes":
            workspace.set_mode("panes")
        known = next((s for s in workspace.sources if (s.node, s.file) == (source.node, source.file)), None)
        if known is None:
            known = workspace.add(source)
        if known not in workspace.panes(self.grid.room):
            workspace.first = workspace.sources.index(known) // self.grid.room * self.grid.room
        view = self.opened.view_of(known)
        view.go(offset=offset)
        self.arrange_parts()
        pane = next(
            (pane for pane in self.grid.panes if pane.display and pane.view is view), self.grid.panes[0]
        )
        self._last = pane
        if self.focused is not self.results:
            pane.focus()
        self.pull()

    def show_list(self, *, of_bookmarks: bool) -> None:
        """Show and focus the list of bookmarks, or of search hits."""
        self.results.of_bookmarks = of_bookmarks
        self.results.at = 0
        self.results.display = True
        self.call_after_refresh(self.results.focus)
