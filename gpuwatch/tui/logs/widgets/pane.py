"""A log pane on the screen: a header, and the lines of one log or of several merged."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message

from gpuwatch.diagnose.model.text import clock
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.widgets.line_painter import (
    CLOCK_CELLS,
    DATED_CLOCK_CELLS,
    GUTTER_CELLS,
    Ink,
    fitting,
    fold_badge,
    fold_tail,
    loudness,
    mark,
    of_ranks,
    on_background,
    text_segments,
)
from gpuwatch.tui.logs.widgets.pane_header import header
from gpuwatch.tui.logs.workspace.shown_rows import ShownLine, shown_lines
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.line_view import LineView
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import clean, fit
from gpuwatch.tui.toolkit.time_input import clock_text
from gpuwatch.wire import KERNEL_LOG

WHEEL_LINES = 3
SIDEWAYS_CELLS = 16
"""Cells that an arrow key scrolls sideways."""
MAX_NAME_WIDTH, NARROW_NAME_WIDTH, WIDE_COLUMNS = 18, 8, 100
"""Cells of the column with each line's source: on a pane from `WIDE_COLUMNS` on, and on a narrower one."""
MIN_MESSAGE_WIDTH = 32
"""Cells that the message keeps before the text after it."""


class LogPane(LineView, can_focus=True):
    """The widget that paints the view of one log.

    The screen assigns another view when the selection changes.
    """

    DEFAULT_CSS: ClassVar[str] = "LogPane { width: 1fr; height: 1fr; overflow: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.MOVES]
    pinned = 1

    @dataclass
    class CursorMoved(Message):
        """Posted when the cursor is on another line: the other panes move to its time."""

        pane: LogPane

    @dataclass
    class LineChosen(Message):
        """Posted by Enter or a double click on a row that cannot be unfolded."""

        pane: LogPane

    def __init__(self, workspace: LogWorkspace, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.workspace = workspace
        self._view: View | None = None
        self.empty: Callable[[], list[str]] = list
        """Sentences to show without a view."""
        self._shown: list[ShownLine] = []
        self._empty_rows: list[Row] = []
        self._gutter_cells = 0
        self._clock_cells = 0
        """The width of the column with each line's time; 0 without it."""
        self._everyone: list[int] = []
        self._cause_at: float | None = None

    @property
    def view(self) -> View | None:
        """The view of this pane; None: it shows no log."""
        return self._view

    @view.setter
    def view(self, view: View | None) -> None:
        """Set another view, and drop the layout of the previous one."""
        if view is not self._view:
            self._view, self._shown = view, []

    # ---- lines

    def prepare(self) -> None:
        view = self.view
        if view is None:
            self._empty_rows = self._why_empty()
            return
        if view.sync():
            self.post_message(self.CursorMoved(self))
        self._gutter_cells = self._names(view)
        self._everyone = self.workspace.everyone(view) if view.merged else []
        course = self.workspace.course if view.merged else None
        self._cause_at = course.cause.at if course else None
        self._clock_cells = CLOCK_CELLS if self._is_timed(view) else 0
        view.below = self._has_line_below
        self._shown = self._lines_of(view)
        dated = sum(self._is_of_another_day(shown.at) for shown in self._shown)
        if self._clock_cells and 2 * dated > len(self._shown):
            self._clock_cells = DATED_CLOCK_CELLS
            self._shown = self._lines_of(view)

    def _lines_of(self, view: View) -> list[ShownLine]:
        width = max(8, self.columns - self._before())
        return list(shown_lines(view, self.workspace, width, self.size.height - 1))

    def _has_line_below(self, row: Fold) -> bool:
        """Return True for a row after the incident's cause whose ranks do not fit behind its message."""
        if self._cause_at is None or row.fixed or row.at <= self._cause_at or not of_ranks(row):
            return False
        parts = [*fold_badge(row, self.look), *fold_tail(row, self._everyone, self._cause_at, self.look)]
        return self._before() + MIN_MESSAGE_WIDTH + sum(part.cell_length for part in parts) > self.columns

    def _is_of_another_day(self, at: float) -> bool:
        return at != UNKNOWN and " " in clock(at, self.view_state.wall())

    def _why_empty(self) -> list[Row]:
        dim, width = self.look.dim, self.columns
        return [row for text in self.empty() for row in (wrapped(text, width, dim) if text else [()])]

    def _before(self) -> int:
        return GUTTER_CELLS + self._clock_cells + self._gutter_cells

    def _is_timed(self, view: View) -> bool:
        """Return True if each line's time is shown in front of it; kernel lines have no time of their own."""
        kernel = not view.merged and view.buffers[0].source.file == KERNEL_LOG
        return self.workspace.clocks or view.merged or kernel

    def _names(self, view: View) -> int:
        """Return the width of the column with each line's source; 0 for a single log."""
        if not isinstance(view.feed, Merge):
            return 0
        nodes = len({buffer.source.node for buffer in view.feed.buffers}) > 1
        named = [len(self._whose(buffer, nodes=nodes)) for buffer in view.feed.buffers]
        most = MAX_NAME_WIDTH if self.columns >= WIDE_COLUMNS else NARROW_NAME_WIDTH
        return min(most, max(named, default=0)) + 1

    @staticmethod
    def _whose(buffer: Buffer, *, nodes: bool) -> str:
        source = buffer.source
        return source.name if source.rank is not None or not nodes else f"{source.node} {source.name}"

    def count(self) -> int:
        return self.size.height

    def _line_at(self, y: int) -> int:
        return y

    def key(self, line: int) -> Hashable:
        view = self.view
        if line == 0:
            return self._header(self.columns)
        if view is None:
            return self._empty_rows[line - 1] if line <= len(self._empty_rows) else None
        if line > len(self._shown):
            return None
        shown = self._shown[line - 1]
        on = shown.here and self.has_focus
        return shown, on, self.workspace.ink, view.left, self._cause_at, self._clock_cells

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return self._header(width)
        view = self.view
        if view is None:
            return self._empty_rows[line - 1] if line <= len(self._empty_rows) else ()
        if line > len(self._shown):
            return ()
        return self._log_row(view, self._shown[line - 1], width)

    def _log_row(self, view: View, shown: ShownLine, width: int) -> Row:
        look = self.look
        if shown.spot.ruled:
            return heading(shown.spot.text, width, look)
        parts = [] if shown.fold.fixed else fold_tail(shown.fold, self._everyone, self._cause_at, look)
        severity = loudness(shown.line, shown.found)
        out: list[Segment] = []
        if shown.spot.piece:
            out.append(Segment(" " * self._before()))
        else:
            out += mark(severity, look, bookmarked=shown.bookmarked, wanted=shown.wanted)
            if self._clock_cells:
                out.append(self._clock(shown))
            if view.merged:
                out += self._gutter(shown, self._gutter_cells)
            if shown.seam is not None:
                out += [Segment(f" {clean(shown.seam)} ", look.badge["warning"]), Segment(" ")]
            if not shown.fold.fixed:
                out += fold_badge(shown.fold, look)
        room = max(0, width - sum(segment.cell_length for segment in out))
        if shown.spot.below:
            tail = fitting(parts, room)
        elif shown.spot.piece or self._has_line_below(shown.fold):
            tail = []
        else:
            tail = fitting(parts, room - MIN_MESSAGE_WIDTH)
        room -= sum(segment.cell_length for segment in tail)
        ink = Ink(
            look,
            self.workspace.searching.patterns,
            0 if view.wrap else view.left,
            severity,
            first=not shown.spot.piece,
            whole=view.wrap,
            message_only=not view.wrap and (of_ranks(shown.fold) or self._has_clock(view, shown)),
        )
        out += [*text_segments(shown.spot.text, ink, room), *tail]
        if shown.here and (self.has_focus or shown.wanted):
            return on_background(
                tuple(out), width, look.cursor + look.strong if shown.wanted else look.cursor
            )
        if shown.wanted:
            return on_background(tuple(out), width, look.strong)
        return tuple(out)

    def _has_clock(self, view: View, shown: ShownLine) -> bool:
        """Return True if a merged line's own time is shown in front of it, so that its prefix can be cut."""
        return view.merged and shown.at != UNKNOWN and shown.line.t is not None

    def _clock(self, shown: ShownLine) -> Segment:
        """Return a line's time: with milliseconds, or with its date if it is of another day.

        Among lines of today it is `11-17 09:53`, or the date alone in another year, as wide as their times.
        """
        if shown.at == UNKNOWN:
            return Segment(" " * self._clock_cells)
        sign = " " if shown.line.t is not None else "~"
        dated = self._is_of_another_day(shown.at)
        text = clock(shown.at, self.view_state.wall()) if dated else clock_text(shown.at, fine=True)
        if dated and self._clock_cells < DATED_CLOCK_CELLS:
            this_year = text[:4] == time.strftime("%Y", time.localtime(self.view_state.wall()))
            text = text[5:16] if this_year else text[:10]
        return Segment(sign + text[: self._clock_cells - 2].rjust(self._clock_cells - 2) + " ", self.look.dim)

    def _gutter(self, shown: ShownLine, width: int) -> list[Segment]:
        source = shown.source
        rank = shown.line.rank if source.rank is None else source.rank
        name = f"r{rank}" if rank is not None else f"{source.node} {source.name}"
        if cell_len(name) >= width:
            name = source.name if cell_len(source.name) < width else source.name.removesuffix(".log")
        return [Segment(fit(name, width - 1), self.look.title), Segment(" ")]

    # ---- the header

    def _header(self, width: int) -> Row:
        """Return the header line; bright with the focus, dim without."""
        background = self.look.cursor if self.has_focus else self.look.heat(0.0)
        if self.view is None:
            return on_background((Segment(" no log yet"),), width, background)
        last = self._shown[-1].fold.last if self._shown else None
        row = header(self.view, self.workspace, self.view_state, self.look, last, width)
        return on_background(tuple(row), width, background)

    # ---- gestures

    def _reported(self) -> None:
        self.workspace.searching.note = ""  # of what was done before
        self.pull()
        self.post_message(self.CursorMoved(self))

    def action_move(self, dx: int, dy: int) -> None:
        """Move the cursor by `dy` rows, or scroll the text sideways."""
        view = self.view
        if view is None:
            return
        if dx:
            view.left = max(0, view.left + dx * SIDEWAYS_CELLS) if not view.wrap else 0
            self.pull()
            return
        view.move(dy)
        self._reported()

    def action_pages(self, pages: float) -> None:
        if self.view is not None:
            self.view.move(int(pages * max(1, self.size.height - 2)))
            self._reported()

    def action_jump_to_end(self, item: int) -> None:
        """Move to the file's beginning (`item` 0), or follow its end (negative)."""
        view = self.view
        if view is None:
            return
        if item >= 0:
            view.to_start()
        else:
            view.follow()
            for buffer in view.buffers:
                buffer.follow()
        self._reported()

    def action_choose(self) -> None:
        """Unfold the row under the cursor; if it cannot be unfolded, post `LineChosen`."""
        if self.view is not None and self.view.unfold():
            self.pull()
        else:
            self.post_message(self.LineChosen(self))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(WHEEL_LINES)

    def _scroll(self, rows: int) -> None:
        if self.view is not None:
            self.view.move(rows)
            self._reported()

    def on_click(self, event: events.Click) -> None:
        if self.view is None or event.y < 1 or not 0 < event.y <= len(self._shown):
            return
        if event.chain > 1:
            self.action_choose()
            return
        self.view.following = False
        self.view.put_on(self._shown[event.y - 1].fold.first)
        self._reported()

    def on_focus(self) -> None:
        self.pull()

    def on_blur(self) -> None:
        self.pull()

    def copy_text(self) -> str:
        line = self.view.line() if self.view else None
        return "" if line is None else clean(line.text)
