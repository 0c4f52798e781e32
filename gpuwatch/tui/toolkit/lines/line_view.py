"""The base of widgets that show lines: once per frame they repaint only the lines that have changed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

if TYPE_CHECKING:
    from textual.binding import BindingType

    from gpuwatch.tui.model.view_state import ViewState
    from gpuwatch.tui.toolkit.cockpit import Cockpit


def joined_lines(lines: Sequence[int], width: int) -> list[Region]:
    """Return regions of whole lines; adjacent lines share one. `lines` are sorted."""
    found: list[Region] = []
    for y in lines:
        if found and found[-1].bottom == y:
            found[-1] = Region(0, found[-1].y, width, found[-1].height + 1)
        else:
            found.append(Region(0, y, width, 1))
    return found


class LineView(ErrorBoundary, ScrollView):
    """A scrolling list of lines, the first `pinned` of which stay.

    Subclasses define the number of lines, what each depends on (`key`) and how it is painted (`row`).
    """

    BINDINGS: ClassVar[list[BindingType]] = []
    pinned = 0
    in_first_frame = False
    """True for cheap lines that are painted at once as a screen opens; the others wait for their sizes."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, Hashable] = {}
        self._ground: Style | None = None
        """The style under every line; textual walks up the tree to find it, so it is read once per frame."""
        self._prepared = False
        """True once the data of the lines was read; Textual paints a new screen before `pull`."""
        self.rows_painted = 0
        """Lines painted so far; tests count them."""
        self._fault: str | None = None
        """The message of a fault that prevents these lines from being painted."""

    @property
    def cockpit(self) -> Cockpit:
        """The app, with the interface that widgets use."""
        return cast("Cockpit", self.app)

    @property
    def view_state(self) -> ViewState:
        """The data to show."""
        return self.cockpit.view_state

    @property
    def look(self) -> StyleSet:
        """The styles."""
        return self.cockpit.look

    @property
    def columns(self) -> int:
        """Cells of a line, without the scrollbar; 0 before the first layout.

        A scrollbar that the next layout brings, since the lines have become too many, has its cells already.
        """
        width, styles = self.scrollable_content_region.width, self.styles
        due = styles.overflow_y == "auto" and self.virtual_size.height > self.container_size.height > 0
        if due and not self.show_vertical_scrollbar and styles.scrollbar_gutter == "auto":
            width -= styles.scrollbar_size_vertical
        return max(0, width)

    def prepare(self) -> None:
        """Update the data of the lines; called once per frame before `count` and `key`."""

    def count(self) -> int:
        """Return the number of lines, pinned ones included."""
        raise NotImplementedError

    def key(self, line: int) -> Hashable:
        """Return everything on which the line depends: it is repainted when this changes."""
        raise NotImplementedError

    def row(self, line: int, width: int) -> Row:
        """Return the painted line number `line`, at most `width` cells wide."""
        raise NotImplementedError

    def _line_at(self, y: int) -> int:
        return y if y < self.pinned else y + int(self.scroll_offset.y)

    def line_under(self, event: events.MouseEvent) -> int:
        """Return the number of the line under the mouse pointer."""
        return self._line_at(event.y)

    def pull(self) -> int:
        """Repaint the lines that have changed; return their number.

        If the lines cannot be built, the error is painted instead of the first line until they can.
        """
        try:
            dirty = self._pull()
        except Exception as error:
            self._report(error)
            return self.size.height
        if self._fault is not None:
            self._fault = None
            self.refresh()
        return dirty

    def _report(self, error: Exception) -> None:
        if self._fault is None:
            self._fault = self.cockpit.report_fault(self.part, error)
        self.refresh()

    def _pull(self) -> int:
        self._ground = None
        count = self._prepare()
        height, top = self.size.height, int(self.scroll_offset.y)
        dirty = []
        for y in range(height):
            line = y if y < self.pinned else y + top
            if self._painted.get(y, self) != (line, self.key(line) if line < count else None):
                dirty.append(y)
        if len(dirty) == height:
            self.refresh()
        elif dirty:
            self.refresh(*joined_lines(dirty, self.columns))
        return len(dirty)

    def _prepare(self) -> int:
        """Update the data of the lines, again if their number brings a scrollbar; return their number."""
        width, self._prepared = self.columns, True
        self.prepare()
        self.virtual_size = Size(1, self.count())
        if self.columns != width:
            self.prepare()
            self.virtual_size = Size(1, self.count())
        return self.virtual_size.height

    def repaint(self) -> None:
        """Rebuild and repaint all lines, after an input."""
        self._prepare()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the screen line `y` for Textual."""
        self.rows_painted += 1
        ground = self._ground = self._ground or self.rich_style
        try:
            if self.in_first_frame and not self._prepared:
                self._prepared = True
                self.prepare()
            strip = self._strip(y, ground)
        except Exception as error:
            self.call_later(self._report, error)
            strip = Strip.blank(self.columns, ground)
        if y == 0 and self._fault is not None:
            text = Segment(fit(clean(self._fault), self.columns), self.look.severity["error"])
            return Strip([text]).adjust_cell_length(self.columns).apply_style(ground)
        return strip

    def _strip(self, y: int, ground: Style) -> Strip:
        line, width = self._line_at(y), self.columns
        if line >= self.count():
            self._painted[y] = (line, None)
            return Strip.blank(width, ground)
        self._painted[y] = (line, self.key(line))
        return Strip(self.row(line, width)).adjust_cell_length(width).apply_style(ground)

    def on_resize(self) -> None:
        """Repaint all lines for the new size."""
        self._painted.clear()
        self.repaint()

    def notify_style_update(self) -> None:
        """Repaint all lines after a theme change."""
        super().notify_style_update()
        self._painted.clear()
        self._ground = None

    def show_line(self, line: int, *, span: int = 1) -> None:
        """Scroll just far enough that `span` lines from `line` on are visible."""
        top, room = int(self.scroll_offset.y), self.size.height - self.pinned
        first = line - self.pinned
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif first + span > top + room:
            self.scroll_to(y=first + span - room, animate=False)

    def copy_text(self) -> str:
        """Return the text to copy from under the cursor; "" if there is none."""
        return ""
