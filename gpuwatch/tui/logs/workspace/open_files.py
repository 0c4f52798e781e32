"""The open log files of the logs screen: a view of each, all at the same time with the same settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.buffer import PAGE_LINES, Buffer
from gpuwatch.tui.logs.data.finding_marks import Marked
from gpuwatch.tui.logs.data.merge import MAX_LINES, Merge
from gpuwatch.tui.logs.data.rows import Floor
from gpuwatch.tui.logs.data.sources import LogSource, whole_files
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.workspace.kept_pages import KeptPages
from gpuwatch.tui.model.view_state import ViewState

LEVELS: tuple[Floor | None, ...] = (None, "warning", "error")
OPENED_AT_ONCE = 16
"""Number of files that are opened in one frame."""
STILL_S = 0.25
"""The cursor must rest for this many seconds before the other files are read at its time."""
COMMON_LINE_CHARS = 4096
"""If a filter searches fewer characters of a line than this, `filter_note` states so."""
UNSURE_S = 1.0
"""A clock error above this many seconds is reported."""


class OpenLogs:
    """The views of single files, created when they are first shown, or one view of several merged."""

    def __init__(self, view_state: ViewState, marked: Marked) -> None:
        self.views: dict[LogSource, View] = {}
        self.merged: View | None = None
        self.time: float | None = None
        """The time of all views on our clock; None: at the end."""
        self.filter_text = ""
        self.filter_note = ""
        """A remark about the filter for the user; "": none."""
        self.level: Floor | None = None
        """The lowest severity of the lines that are shown; None: all are."""
        self.wrap = False
        self.folding = True
        self._filter_pattern: TypedPattern | None = None
        self._view_state = view_state
        self._marked = marked
        self._buffers: dict[LogSource, Buffer] = {}
        self._pages = KeptPages(lambda: view_state.fleet)
        self._to_open: list[Buffer] = []
        self._opened_frozen: list[Buffer] = []
        """Files whose end was loaded during a freeze: they are followed when the view continues."""
        self._moved_at: float | None = None
        self._sent_to: dict[LogSource, float] = {}

    # ---- which files

    def keep(self, sources: Collection[LogSource]) -> None:
        """Close the merged view, and every file except these."""
        self.merged = None
        self._close_others(sources)

    def merge(self, sources: Sequence[LogSource], lead: tuple[LogSource, int] | None = None) -> None:
        """Show these files merged by time, and close all others; without files close everything.

        A file that several of the ranks share is merged once, as a whole.

        Args:
            sources: The files.
            lead: One of them, and the byte offset of its line to jump to.
        """
        if not sources:
            self.keep(())
            return
        sources = whole_files(sources)
        if lead is not None:
            lead = whole_files([lead[0]])[0], lead[1]
        page = max(40, min(PAGE_LINES, MAX_LINES // 2 // len(sources)))
        known = set(self._buffers)
        buffers = [self._buffer(source, page) for source in sources]
        self._to_open = [buffer for buffer in buffers if buffer.source not in known]
        if lead is not None:
            self._to_open = [buffer for buffer in self._to_open if buffer.source != lead[0]]
            self._buffers[lead[0]].go(offset=lead[1])
        self.merged = self._fresh_view(Merge(buffers))
        if self.time is not None:
            self.merged.to_time(self.time)
        if lead is not None:
            self.merged.aim = lead
        self._close_others(sources)

    def view_of(self, source: LogSource) -> View:
        """Return the view of one file; the file is opened at the first call."""
        view = self.views.get(source)
        if view is None:
            view = self.views[source] = self._fresh_view(self._buffer(source, PAGE_LINES))
            view.sheet.only_rank = source.rank if source.shared else None
            self._begin(view.buffers[0])
        return view

    def lead(self, source: LogSource, offset: int) -> None:
        """Jump to the line at a byte offset of a file.

        This pane stays there while the others move to the common time.
        """
        self.view_of(source).go(offset=offset)
        if self.time is not None:
            self._sent_to[source] = self.time

    def all_views(self) -> list[View]:
        """Return all open views."""
        return [*self.views.values(), *([self.merged] if self.merged else [])]

    def close(self) -> None:
        """Close all files and views, and drop every request on the nodes."""
        for buffer in self._buffers.values():
            self._close(buffer)
        self._buffers.clear()
        self.views.clear()
        self._to_open.clear()
        self.merged = None

    def _close(self, buffer: Buffer) -> None:
        """Close a file; the page around a time is kept, because the same time is often opened again."""
        buffer.close()
        if self.time is not None:
            self._pages.keep(buffer)

    def _fresh_view(self, feed: Buffer | Merge) -> View:
        view = View(feed)
        view.wrap, view.sheet.folding = self.wrap, self.folding
        self._filter(view)
        view.following = self.time is None
        return view

    def _buffer(self, source: LogSource, page: int) -> Buffer:
        buffer = self._buffers.get(source)
        if buffer is None:
            buffer = self._pages.take(source, page) if self.time is not None else None
            dated = partial(self._marked.dated, source.node, source.file)
            buffer = buffer or Buffer(source, self._view_state.session, page=page, dated=dated)
            self._buffers[source] = buffer
            buffer.offset_s = self.offset(source.node)
        return buffer

    def _begin(self, buffer: Buffer) -> None:
        if self.time is None and self._view_state.frozen:
            buffer.read_until(self._view_state.wall())
            self._opened_frozen.append(buffer)
        elif self.time is None:
            buffer.follow()
        else:
            buffer.go(at=self.time)

    def _close_others(self, wanted: Collection[LogSource]) -> None:
        for source in [source for source in self._buffers if source not in wanted]:
            self._close(self._buffers.pop(source))
            self.views.pop(source, None)
        if self.time is not None:
            self._moved_at = self._view_state.now - STILL_S
            self._sent_to.clear()

    # ---- clocks

    def offset(self, node: str) -> float:
        """Return a node's clock minus ours in seconds; 0 for an unknown node."""
        known = self._view_state.fleet.nodes.get(node)
        return 0.0 if known is None else known.offset_s

    def unsure_clocks(self, view: View) -> list[str]:
        """Return the nodes in a view whose clock offset is unknown or uncertain by over a second."""
        names = dict.fromkeys(buffer.source.node for buffer in view.buffers)
        nodes = [self._view_state.fleet.nodes[name] for name in names if name in self._view_state.fleet.nodes]
        return [node.name for node in nodes if node.clock is None or node.clock.error_s > UNSURE_S]

    # ---- once a frame

    def pull(self) -> None:
        """Process what was received, open due files, move views to the common time; called once per frame.

        A filter that took too long is switched off.
        """
        if self._filter_pattern is not None and self._filter_pattern.is_given_up:
            self.set_filter("")
            self.filter_note = "the filter took too long on these lines and was switched off"
        frozen = self._view_state.frozen
        for buffer in self._to_open[:OPENED_AT_ONCE]:
            self._begin(buffer)
        del self._to_open[:OPENED_AT_ONCE]
        if self._opened_frozen and not frozen:
            for buffer in self._opened_frozen:
                if self.time is None and self._buffers.get(buffer.source) is buffer:
                    buffer.follow()
            self._opened_frozen.clear()
        for source, buffer in self._buffers.items():
            buffer.offset_s = self.offset(source.node)
            buffer.pull(frozen=frozen)
        stands = frozen or self._view_state.folder is not None  # then no time goes by
        if self._moved_at is not None and (stands or self._view_state.now - self._moved_at >= STILL_S):
            self._moved_at = None
            self._send_all()

    def move_time(self, at: float | None, own: View | None) -> None:
        """Set the common time to that of the pane `own`, and move the others there; None: follow the ends.

        Panes whose files have no loaded lines at that time read them when the cursor has rested for 0.25 s.
        """
        self.time = at
        for view in self.all_views():
            if view is own:
                continue
            if at is None:
                self._follow(view)
            elif not self._go_if_loaded(view, at):
                view.following = False
        self._moved_at = None if at is None else self._view_state.now
        if at is None:
            self._sent_to.clear()

    def _go_if_loaded(self, view: View, at: float) -> bool:
        if all(buffer.covers(at) for buffer in view.buffers if not buffer.error):
            view.to_time(at)
            return True
        return False

    def _send_all(self) -> None:
        if self.time is None:
            return
        for view in self.views.values():
            source = view.buffers[0].source
            if not view.buffers[0].covers(self.time) and self._sent_to.get(source) != self.time:
                self._sent_to[source] = self.time
                view.go(at=self.time, mark=False, lead=False)

    def _follow(self, view: View) -> None:
        view.follow()
        for buffer in view.buffers:
            buffer.follow()

    def go_to_time(self, at: float) -> None:
        """Move all panes to a time of our clock (unix seconds)."""
        self.time = at
        self._sent_to.clear()
        for view in self.all_views():
            view.go(at=at, mark=False, lead=False)

    # ---- filter, folding, wrapping

    def set_filter(self, text: str) -> None:
        """Show only lines that match a pattern, or with a leading `!` those that do not; "" shows all.

        A pattern without capital letters ignores case. If the pattern is searched only in the first
        characters of a line, `filter_note` states so.

        Raises:
            PatternError: It is not a regular expression, or could take too long.
        """
        is_empty, self.filter_note = text.strip() in ("", "!"), ""
        self._filter_pattern = pattern = None if is_empty else TypedPattern(text.removeprefix("!"))
        self.filter_text = "" if is_empty else text
        if pattern is not None and pattern.window < COMMON_LINE_CHARS:
            self.filter_note = f"the filter searches only the first {pattern.window:,} characters of a line"
        for view in self.all_views():
            self._filter(view)
            view.forget()

    def show_all(self) -> None:
        """Show lines of every level, and without a filter."""
        if self.level is not None or self.filter_text:
            self.level = None
            self.set_filter("")

    def next_level(self) -> None:
        """Switch between all lines, warnings and worse, and errors and worse."""
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]
        for view in self.all_views():
            self._filter(view)
            view.forget()

    def _filter(self, view: View) -> None:
        sheet, pattern, hides = view.sheet, self._filter_pattern, self.filter_text.startswith("!")
        sheet.floor, sheet.found = self.level, self._marked.at
        sheet.keep, sheet.without = (None, pattern) if hides else (pattern, None)

    def set_folding(self, *, on: bool) -> None:
        """Fold tracebacks and repeated lines in all views, or show every line."""
        self.folding = on
        for view in self.all_views():
            view.sheet.folding = on
            view.forget()

    def set_wrap(self, *, on: bool) -> None:
        """Wrap long lines in all views, or cut them."""
        self.wrap = on
        for view in self.all_views():
            view.wrap, view.left = on, 0
