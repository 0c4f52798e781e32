"""Line-API widgets that pull: once a frame each finds which visible lines moved and repaints only those."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

if TYPE_CHECKING:
    from textual.binding import BindingType

    from gpuwatch.tui.model.view_state import ViewState
    from gpuwatch.tui.toolkit.cockpit import Cockpit

Row: TypeAlias = "tuple[Segment, ...]"
"""One painted line."""
Cell: TypeAlias = "tuple[str, Style]"
"""A piece of a line before it is painted."""


def text_of(row: Sequence[Segment]) -> str:
    """The plain text of a line."""
    return "".join(segment.text for segment in row).rstrip()


class LineView(ErrorBoundary, ScrollView):
    """A scrolling stack of lines, the first `pinned` of which stay.

    Subclasses state how many lines there are, what each depends on (`key`) and how it is painted (`row`).
    """

    DEFAULT_CSS = """
    Lines { overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = []
    pinned = 0

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, Hashable] = {}
        self._ground: Style | None = None
        """The style under every line; textual walks up the tree to find it, so it is asked once a frame."""
        self.rows_painted = 0
        """Lines painted so far; tests count them."""
        self._fault: str | None = None
        """The line of a fault that keeps these lines from being painted."""

    @property
    def cockpit(self) -> Cockpit:
        """The app, as widgets use it."""
        return cast("Cockpit", self.app)

    @property
    def view_state(self) -> ViewState:
        """What to paint."""
        return self.cockpit.view_state

    @property
    def look(self) -> StyleSet:
        """How to paint it."""
        return self.cockpit.look

    @property
    def columns(self) -> int:
        """Cells of a line, the scrollbar not counted."""
        return self.scrollable_content_region.width

    def prepare(self) -> None:
        """Bring what the lines are made of up to date; called once a frame before `count` and `key`."""

    def count(self) -> int:
        """Lines in all, pinned ones included."""
        raise NotImplementedError

    def key(self, line: int) -> Hashable:
        """What the line depends on: a line is repainted when this changed."""
        raise NotImplementedError

    def row(self, line: int, width: int) -> Row:
        """Paint a line."""
        raise NotImplementedError

    def _line_at(self, y: int) -> int:
        return y if y < self.pinned else y + int(self.scroll_offset.y)

    def line_under(self, event: events.MouseEvent) -> int:
        """The line that a mouse event points at."""
        return self._line_at(event.y)

    def pull(self) -> int:
        """Repaint what moved since it was last painted; returns the number of lines.

        A fault is painted instead of the first line, until the lines can be made again.
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
        self.prepare()
        count = self.count()
        if self.virtual_size.height != count:
            self.virtual_size = Size(1, count)
        width, height = self.columns, self.size.height
        dirty = []
        for y in range(height):
            line = self._line_at(y)
            if self._painted.get(y, self) != (line, self.key(line) if line < count else None):
                dirty.append(y)
        if len(dirty) * 3 > height:
            self.refresh()
        elif dirty:
            self.refresh(*(Region(0, y, width, 1) for y in dirty))
        return len(dirty)

    def repaint(self) -> None:
        """Paint everything again, after a gesture."""
        self.prepare()
        self.virtual_size = Size(1, self.count())
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Textual's call for one line of the screen."""
        self.rows_painted += 1
        ground = self._ground = self._ground or self.rich_style
        try:
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
        """A new size: everything is worked out again."""
        self._painted.clear()
        self.repaint()

    def notify_style_update(self) -> None:
        """The theme changed."""
        super().notify_style_update()
        self._painted.clear()
        self._ground = None

    def show_line(self, line: int, *, span: int = 1) -> None:
        """Scroll just so far that `span` lines from `line` on can be seen."""
        top, room = int(self.scroll_offset.y), self.size.height - self.pinned
        first = line - self.pinned
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif first + span > top + room:
            self.scroll_to(y=first + span - room, animate=False)

    def copy_text(self) -> str:
        """The text of what the cursor is on."""
        return ""


class SelectableLines(LineView, can_focus=True):
    """Lines with a cursor on one of `items()` things."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.MOVES]

    @dataclass
    class Chosen(Message):
        """Enter, or a click on what the cursor is on already."""

        picker: SelectableLines

        @property
        def control(self) -> SelectableLines:
            """The widget, for `@on` selectors."""
            return self.picker

    @dataclass
    class Moved(Message):
        """The cursor is somewhere else."""

        picker: SelectableLines

        @property
        def control(self) -> SelectableLines:
            """The widget, for `@on` selectors."""
            return self.picker

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self.at = 0
        """The thing that the cursor is on."""

    def items(self) -> int:
        """How many things the cursor can be on."""
        return max(0, self.count() - self.pinned)

    def first_line(self, item: int) -> int:
        """The first line of a thing."""
        return item + self.pinned

    def item_at(self, line: int, x: int) -> int | None:  # noqa: ARG002 - other pickers need the column
        """The thing at a place."""
        return line - self.pinned if line >= self.pinned else None

    def page(self) -> int:
        """How far page up and down go."""
        return max(1, self.size.height - self.pinned - 1)

    def steps(self, dx: int, dy: int) -> int:
        """Where an arrow key leads, as a difference of items."""
        return dx + dy

    def go(self, item: int) -> None:
        """Put the cursor on a thing (the nearest one that exists) and show it."""
        self.at = max(0, min(item, self.items() - 1))
        self.show_line(self.first_line(self.at))
        self.pull()
        self.post_message(self.Moved(self))

    def action_move(self, dx: int, dy: int) -> None:
        """An arrow key."""
        self.go(self.at + self.steps(dx, dy))

    def action_pages(self, pages: float) -> None:
        """A page, or half of one."""
        self.go(self.at + int(pages * self.page()))

    def action_jump_to_end(self, item: int) -> None:
        """The first (0) or last (-1) thing."""
        self.go(item if item >= 0 else self.items() - 1)

    def action_choose(self) -> None:
        """Open what the cursor is on."""
        if self.items():
            self.post_message(self.Chosen(self))

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """Put the cursor there; open it on the second click."""
        item = self.item_at(line, x)
        if item is None or item >= self.items():
            return
        if item == self.at and twice:
            self.action_choose()
        else:
            self.go(item)

    def on_click(self, event: events.Click) -> None:
        """The mouse."""
        self.click(self.line_under(event), event.x, twice=event.chain > 1)

    def on_focus(self) -> None:
        """The cursor gets its colour."""
        self.pull()

    def on_blur(self) -> None:
        """The cursor loses its colour."""
        self.pull()


class RebuiltPage(SelectableLines):
    """A page of lines that are few enough to be made afresh whenever anything moved."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []

    def build(self, width: int) -> list[Row]:
        """All lines, for a width."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make the lines."""
        self._rows = self.build(self.columns)
        self.at = max(0, min(self.at, self.items() - 1))

    def count(self) -> int:
        """Lines in all."""
        return len(self._rows)

    def key(self, line: int) -> Hashable:
        """A line depends on what it states and on the cursor."""
        return (self._rows[line], line == self.first_line(self.at), self.has_focus)

    def row(self, line: int, width: int) -> Row:
        """The line, with the cursor's background where it is."""
        row = self._rows[line]
        if self.has_focus and line == self.first_line(self.at) and line >= self.pinned:
            return highlighted(row, width, self.look.cursor)
        return row

    def copy_text(self) -> str:
        """The line under the cursor."""
        line = self.first_line(self.at)
        return text_of(self._rows[line]) if line < len(self._rows) else ""


def joined(cells: Sequence[Cell]) -> list[Segment]:
    """Neighbours of one style as one segment: the fewer there are, the sooner a line is painted."""
    out: list[Segment] = []
    text, last = "", None
    for piece, style in cells:
        if style is not last and text:
            out.append(Segment(text, last))
            text = ""
        text, last = text + piece, style
    return [*out, Segment(text, last)] if text else out


def highlighted(row: Row, width: int, style: Style) -> Row:
    """The line over the whole width on the cursor's background."""
    used = sum(segment.cell_length for segment in row)
    padded = (*row, Segment(" " * max(0, width - used)))
    return tuple(Segment(s.text, (s.style + style) if s.style else style) for s in padded)


def wrapped(text: str, width: int, style: Style, *, indent: int = 1) -> list[Row]:
    """Cleaned text in as many lines as it takes; nothing of it is cut."""
    pad = " " * indent
    lines = textwrap.wrap(clean(text), max(8, width - indent - 1), break_on_hyphens=False)
    return [(Segment(pad + line, style),) for line in lines]


def heading(text: str, width: int, look: StyleSet, note: str = "") -> Row:
    """A section's title with a rule behind it."""
    title = f" {text} "
    tail = f" {note} " if note else ""
    rule = look.glyphs.rule * max(0, width - len(title) - len(tail) - 2)
    return (
        Segment(look.glyphs.rule, look.track),
        Segment(title, look.title),
        Segment(rule, look.track),
        Segment(fit(tail, min(len(tail), max(0, width - len(title) - 2))), look.dim),
        Segment(look.glyphs.rule, look.track),
    )


def note(text: str, look: StyleSet) -> Row:
    """A line that only explains."""
    return (Segment(f" {clean(text)}", look.dim),)
