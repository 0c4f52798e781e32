"""The list under the log panes: search hits or bookmarks; Enter jumps to the line."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.diagnose.model.text import clock
from gpuwatch.number_text import plural
from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.sources import LogSource, file_of
from gpuwatch.tui.logs.search.bookmarks import Bookmark
from gpuwatch.tui.logs.search.node_search import Hit
from gpuwatch.tui.logs.widgets.line_painter import Ink, loudness, mark, on_background, text_segments
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.toolkit.lines.rows import Row, text_of
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import clean, fit
from gpuwatch.tui.toolkit.time_input import clock_text

PLACE = 22


class LogResults(SelectableLines):
    """The list under the log panes: bookmarks if `of_bookmarks`, else the hits of the search."""

    DEFAULT_CSS: ClassVar[str] = "LogResults { height: 33%; min-height: 4; }"
    pinned = 1

    def __init__(self, workspace: LogWorkspace) -> None:
        super().__init__(id="log-results")
        self.workspace = workspace
        self.of_bookmarks = False
        self._on: Hit | None = None
        self._clock_cells = 8
        """Cells of the times: with a date if some entry is of another day."""

    def entries(self) -> Sequence[Hit | Bookmark]:
        """Return the listed hits or bookmarks."""
        if self.of_bookmarks:
            return self.workspace.bookmarks.in_order()
        return self.workspace.searching.search.hits if self.workspace.searching.search else ()

    def prepare(self) -> None:
        """Keep the cursor on its hit while others are inserted before it."""
        entries = self.entries()
        if self._on is not None and not self.of_bookmarks and self.workspace.searching.search:
            hits = self.workspace.searching.search.hits
            if not (self.at < len(hits) and hits[self.at] == self._on) and self._on in hits:
                self.at = hits.index(self._on)
        self.at = max(0, min(self.at, len(entries) - 1))
        ends = (*entries[:1], *entries[-1:])
        self._clock_cells = max((len(self._clock(entry)) for entry in ends), default=8)

    def count(self) -> int:
        return len(self.entries()) + 1

    def key(self, line: int) -> Hashable:
        if line == 0:
            return self._title()
        entry = self.entries()[line - 1]
        return entry, line - 1 == self.at, self.has_focus, self._clock_cells

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return on_background((Segment(self._title()),), width, self.look.heat(0.0))
        entry, look = self.entries()[line - 1], self.look
        node, file = (
            (entry.node, entry.file) if isinstance(entry, Hit) else (entry.source.node, entry.source.file)
        )
        severity = loudness(entry.line, self.workspace.marked.at(node, file, entry.line.offset))
        out = [
            *mark(severity, look, bookmarked=isinstance(entry, Bookmark)),
            Segment(f"{self._clock(entry):<{self._clock_cells}} ", look.dim),
            Segment(fit(f"{node} {self._named(node, file)}", PLACE) + " ", look.title),
        ]
        room = max(0, width - sum(segment.cell_length for segment in out))
        out += text_segments(
            entry.line.text, Ink(look, self.workspace.searching.patterns, severity=severity), room
        )
        row = tuple(out)
        return on_background(row, width, look.cursor) if line - 1 == self.at and self.has_focus else row

    def _clock(self, entry: Hit | Bookmark) -> str:
        return clock_text(None) if entry.at == UNKNOWN else clock(entry.at, self.view_state.wall())

    def _named(self, node: str, file: str) -> str:
        known = file_of(self.view_state.fleet, LogSource(node, file))
        ranks = known.ranks if known else []
        return LogSource(node, file, ranks[0] if len(ranks) == 1 else None).name

    def _title(self) -> str:
        back = self.cockpit.key_of("app.back")
        if self.of_bookmarks and not self.workspace.bookmarks:
            return f" no bookmark; {self.cockpit.key_of('logs.bookmark')} sets one on a line, {back} closes"
        if self.of_bookmarks:
            opens = self.cockpit.key_of("move.open")
            return f" {plural(len(self.workspace.bookmarks), 'bookmark')}; {opens} opens, {back} closes"
        search = self.workspace.searching.search
        if search is None:
            return ""
        state = (
            f"{search.progress:.0%}, {back} cancels"
            if search.running
            else "cancelled"
            if search.cancelled
            else "search complete"
        )
        failed = search.errors()
        reported = f"; {clean(failed[0][0])}: {clean(failed[0][1])}" if failed else ""
        more = f" +{len(failed) - 1}" if len(failed) > 1 else ""
        first = "first " if search.cut else ""
        found = f" {first}{len(search.hits):,} lines with {clean(search.pattern.text)!r}"
        return f"{found} on {search.nodes} nodes, {state}{reported}{more}"

    def go(self, item: int) -> None:
        """Move the cursor to an entry, and remember the entry if it is a hit of the search."""
        super().go(item)
        entries = self.entries()
        entry = entries[self.at] if self.at < len(entries) else None
        self._on = entry if isinstance(entry, Hit) else None

    def chosen(self) -> tuple[LogSource, int] | None:
        """Return the file and byte offset of the entry under the cursor; None if the list is empty."""
        entries = self.entries()
        if self.at >= len(entries):
            return None
        entry = entries[self.at]
        if isinstance(entry, Bookmark):
            return entry.source, entry.line.offset
        return LogSource(entry.node, entry.file), entry.offset

    def copy_text(self) -> str:
        return text_of(self.row(self.at + 1, 4000)) if self.at + 1 < self.count() else ""
