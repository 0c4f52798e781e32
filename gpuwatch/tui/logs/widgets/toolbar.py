"""The line above the log panes: the selection, the filters, and the result of the last input."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.model.text import clock
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import clean, fit

MODES = {"panes": "separate panes", "merged": "merged", "everyone": "all ranks merged"}


class LogBar(RebuiltPage, can_focus=False):
    """The line above the log panes: selection, mode, filters, and the result of the last input."""

    DEFAULT_CSS: ClassVar[str] = "LogBar { height: 1; background: $surface; overflow-y: hidden; }"

    def __init__(self, workspace: LogWorkspace) -> None:
        super().__init__(id="log-bar")
        self.workspace = workspace
        self.shown = 0
        """Number of logs that have a pane."""

    def build(self, width: int) -> list[Row]:
        """Return the line: note, selection, mode, time, filter, search; what does not fit is left out."""
        out: list[Segment] = [Segment(" logs ", self.look.brand)]
        room = width - 6
        for text, style in self._parts():
            if room < 6:
                break
            cells = min(room, cell_len(text) + 2)
            out.append(Segment(fit("  " + text, cells), style))
            room -= cells
        return [tuple(out)]

    def _parts(self) -> list[tuple[str, Style]]:
        workspace, look, searching, opened = (
            self.workspace,
            self.look,
            self.workspace.searching,
            self.workspace.opened,
        )
        parts: list[tuple[str, Style]] = []
        parts.extend((clean(n), look.severity["warning"]) for n in (searching.note, opened.filter_note) if n)
        if searching.jump is not None:
            words = f"searching the node for the next {searching.jump.what}: {searching.jump.progress:.0%}"
            back = self.cockpit.key_of("app.back")
            parts.append((f"{words}, {back} cancels", look.severity["warning"]))
        parts.append((clean(workspace.text or "default selection"), look.strong))
        parts.append((self._how_many(), look.dim))
        if opened.time is not None:
            parts.append((f"at {clock(opened.time, self.view_state.wall())}", look.title))
        if opened.level is not None:
            kept = "errors only" if opened.level == "error" else "warnings and errors"
            parts.append((kept, look.severity["warning"]))
        if opened.filter_text:
            without = opened.filter_text.startswith("!")
            words = f"filter: not {opened.filter_text[1:]}" if without else f"filter: {opened.filter_text}"
            parts.append((clean(words), look.severity["warning"]))
        if searching.search is not None:
            done = f" {searching.search.progress:.0%}" if searching.search.running else ""
            more = "+" if searching.search.cut else ""
            parts.append(
                (
                    f"/{clean(searching.search.pattern.text)} {len(searching.search.hits):,}{more}{done}",
                    look.title,
                )
            )
        if not opened.folding:
            parts.append(("folding off", look.dim))
        if bookmarks := len(workspace.bookmarks):
            parts.append((f"* {bookmarks}", look.title))
        return parts

    def _how_many(self) -> str:
        workspace = self.workspace
        if workspace.mode != "panes":
            return MODES[workspace.mode]
        total = len(workspace.sources)
        if self.shown >= total:
            return f"{total} log{'s' * (total != 1)}"
        last = min(total, workspace.first + self.shown)
        before, after = self.cockpit.key_of("logs.before"), self.cockpit.key_of("logs.after")
        ways = [f"{before} previous"] * (workspace.first > 0) + [f"{after} next"] * (last < total)
        return f"{workspace.first + 1}-{last} of {total} logs, {', '.join(ways)}"
