"""Screen 3: the logs of ranks side by side, or merged by time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import SuspendNotSupported
from textual.binding import BindingType
from textual.widgets import Input

from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.layout import LogsLayout
from gpuwatch.tui.logs.pager import page, pager_command
from gpuwatch.tui.logs.widgets.pane import LogPane
from gpuwatch.tui.logs.workspace.prompt_input import WRONG, Purpose, enter, names_rank, try_out
from gpuwatch.tui.logs.workspace.workspace import MODES
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import clean


class LogsScreen(LogsLayout):
    """The logs screen: `LogsLayout` with the actions of its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.LOGS,
        *keys.borrowed("Logs"),
    ]

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now, such as filtering without logs."""
        if not self.workspace.sources:
            names = "next_mode next_error go_to_time filter_lines zoom next_rank choose"
            return frozenset(names.split())
        single = self.workspace.mode != "panes" or (len(self.workspace.sources) < 2 and not self.grid.zoomed)
        idle = {"zoom"} if single else set()
        known = self.cockpit.view_state.snapshot.incidents
        return frozenset(idle if known else idle | {"next_rank"})

    # ---- the prompt

    def ask(self, purpose: Purpose, text: str = "") -> None:
        """Open the text field for `purpose`, with `text` in it; the panes stay visible."""
        self._last = self.pane
        self.prompt.ask(purpose, text)

    def _close_prompt(self) -> None:
        self.prompt.display = False
        self.pane.focus()
        self.pull()

    @on(Input.Changed, "#log-text")
    def _typed(self, event: Input.Changed) -> None:
        if self.prompt.display:
            self._try(lambda: try_out(self.workspace, self.prompt.purpose, event.value))
            self.pull()

    @on(Input.Submitted, "#log-text")
    def _entered(self, event: Input.Submitted) -> None:
        purpose, text = self.prompt.purpose, event.value
        if self._try(lambda: enter(self.workspace, purpose, text)):
            if purpose == "search" and text and not names_rank(text):
                self.show_list(of_bookmarks=False)
            self._close_prompt()

    def _try(self, act: Callable[[], str | None]) -> bool:
        """Run an input and show its result, or why it failed, beside the text field.

        Returns False if it failed.
        """
        try:
            self.prompt.report("", act() or "")
        except WRONG as error:
            self.prompt.report(str(error))
            return False
        return True

    # ---- lists

    @on(SelectableLines.Chosen, "#log-results")
    def _to_result(self) -> None:
        found = self.results.chosen()
        if found is not None:
            self.show_line(*found)

    # ---- gestures

    @on(LogPane.CursorMoved)
    def _moved(self, event: LogPane.CursorMoved) -> None:
        view = event.pane.view
        self.workspace.searching.note = ""
        if view is not None:
            self.opened.move_time(None if view.following else view.time, view)
            self.pull()

    @on(LogPane.LineChosen)
    def _chosen(self, event: LogPane.LineChosen) -> None:
        view = event.pane.view
        if view is None or not view.feed.base <= view.cursor < view.feed.end:
            return
        if view.merged:
            source = view.feed.place(view.cursor)[0]
            self.show_line(source, view.feed.line(view.cursor).offset)
        else:
            self.action_zoom()

    def step_back(self) -> bool:
        workspace = self.workspace
        if self.prompt.display:
            self._close_prompt()
        elif workspace.searching.search is not None and workspace.searching.search.running:
            workspace.searching.search.cancel()
        elif workspace.searching.jump is not None:
            workspace.searching.end_jump()
        elif self.results.display:
            self.results.display = False
            self.pane.focus()
        elif self.grid.zoomed:
            self.grid.zoomed = False
        else:
            return False
        self.pull()
        return True

    def open_filter(self) -> bool:
        """Open the text field for a search in all files on the nodes; return True."""
        self.ask(
            "search",
            self.workspace.searching.search.pattern.text if self.workspace.searching.search else "",
        )
        return True

    def action_choose_logs(self) -> None:
        """Open the text field to select other ranks or nodes."""
        self.ask("choose", self.workspace.text)

    def action_filter_lines(self) -> None:
        """Open the text field for a filter that keeps or hides lines."""
        search = self.workspace.searching.search
        self.ask("filter", self.opened.filter_text or (search.pattern.text if search else ""))

    def action_go_to_time(self) -> None:
        """Open the text field for a time to go to."""
        self.ask("time")

    def action_level(self) -> None:
        """Switch between all lines, warnings and worse, and errors and worse."""
        self.opened.next_level()
        self.pull()

    def action_minutes(self, minutes: int) -> None:
        """Move all panes by this many minutes."""
        at = self.opened.time if self.opened.time is not None else self.cockpit.view_state.wall()
        self.opened.go_to_time(at + 60 * minutes)
        self.pull()

    def action_next_mode(self, step: int) -> None:
        """Switch between separate panes, the selected files merged, and all ranks merged."""
        some = len(self.workspace.sources) > 1 and not self.workspace.led
        modes = [mode for mode in MODES if mode != "merged" or some]
        at = modes.index(self.workspace.mode) if self.workspace.mode in modes else 0
        self.workspace.set_mode(modes[(at + step) % len(modes)], self._line_gone_to())
        self.grid.panes[0].focus()
        self.pull()

    def _line_gone_to(self) -> tuple[LogSource, int] | None:
        """Return file and byte offset of the line under the cursor; None for a pane that follows its file."""
        view = self.view
        line = None if view is None or view.following else view.line()
        if view is None or line is None:
            return None
        return view.feed.place(view.sheet.rows[view.index].key)[0], line.offset

    def action_next_rank(self) -> None:
        """Open the log line of the next rank of the incident that led here, else of the leading one."""
        self.cockpit.show_next_rank()

    def action_next_item(self, step: int) -> None:
        """Show the next (1) or previous (-1) page of the selected logs."""
        self.workspace.turn(step, self.grid.room)
        self.pull()

    def action_zoom(self) -> None:
        """Switch between the current pane alone and all panes."""
        self.grid.zoomed = not self.grid.zoomed
        self.pull()

    def action_next_error(self, step: int, warnings: int) -> None:
        """Jump to the next (1) or previous (-1) error; `warnings` other than 0: or warning."""
        view = self.view
        if view is not None:
            self.workspace.seek_bad(view, step, warnings=bool(warnings))
            self.pull()

    def action_hit(self, step: int) -> None:
        """Jump to the next (1) or previous (-1) search hit."""
        view = self.view
        if view is not None:
            self.workspace.seek_hit(view, step)
            self.pull()

    def action_bookmark(self) -> None:
        """Set a bookmark on the line under the cursor, or remove it."""
        if self.view is not None:
            self.workspace.bookmarks.toggle(self.view)
            if trouble := self.workspace.bookmarks.trouble:
                self.notify(trouble, severity="warning", timeout=5)
            self.pull()

    def action_next_bookmark(self, step: int) -> None:
        """Jump to the next (1) or previous (-1) bookmark by time."""
        at = self.view.time if self.view and self.view.time is not None else self.cockpit.view_state.wall()
        if mark := self.workspace.bookmarks.beside(at, step):
            self.show_line(mark.source, mark.line.offset)

    def action_bookmarks(self) -> None:
        """Show the list of bookmarks."""
        self.show_list(of_bookmarks=True)
        self.pull()

    def explained(self) -> str:
        """Return the rule of the finding in the line under the cursor; "" without one."""
        line = None if self.view is None or self.node_name() is None else self.view.line()
        if line is None or self.view is None:
            return ""
        source = self.view.feed.place(self.view.cursor)[0]
        place = source.node, source.file, line.offset
        found = self.cockpit.view_state.fleet.findings.values()
        return next(
            (
                each.finding.rule
                for each in found
                if (each.node, each.finding.file, each.finding.offset) == place
            ),
            "",
        )

    def action_unfold(self) -> None:
        """Unfold the row under the cursor, or fold it again."""
        if self.view is not None:
            self.view.unfold()
            self.pull()

    def action_folding(self) -> None:
        """Switch the folding of lines on or off in all panes."""
        self.opened.set_folding(on=not self.opened.folding)
        self.pull()

    def action_wrap(self) -> None:
        """Switch the wrapping of long lines on or off in all panes."""
        self.opened.set_wrap(on=not self.opened.wrap)
        self.pull()

    def action_clocks(self) -> None:
        """Show the time of each line on our clock, or hide it."""
        self.workspace.clocks = not self.workspace.clocks
        self.pull()

    def action_pager(self) -> None:
        """Open the loaded lines in the user's pager."""
        view, command = self.view, pager_command(os.environ)
        if view is None or not view.feed.end > view.feed.base:
            return
        if not command:
            self.workspace.searching.note = "no pager found; set PAGER"
            return
        base, at = view.feed.base, view.cursor
        texts = (clean(view.feed.line(number).text) for number in range(base, view.feed.end))
        try:
            with self.app.suspend():
                page(texts, at - base + 1, command)
        except SuspendNotSupported:
            self.workspace.searching.note = "this terminal cannot run a pager"
        except OSError as error:
            self.workspace.searching.note = f"{command[0]}: {error.strerror}"
