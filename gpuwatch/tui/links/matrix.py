"""The link matrix: every link as one cell, from (row) to (column), between nodes or ranks."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType

from gpuwatch.tui.links.matrix_cells import MEASURES, TITLES, LinkCells, Measure, number_width, sign
from gpuwatch.tui.links.matrix_model import CODES, GRADES, View
from gpuwatch.tui.links.probe_view import LinkView
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.rows import Cell, Row, joined
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import clean, fit

WIDTHS = (6, 5, 4, 3, 2, 1)
"""Cell widths, from roomy to dense."""
LEGIBLE_COLUMNS = 3
"""A cell this wide holds a number. If no width fits, it is used unless scrolling would hide most columns."""
MAX_LABEL_WIDTH = 18
MAX_HEADER_HEIGHT = 5
MIN_LABEL_COLUMNS = 8
MAX_CELL_ROWS = 2


class MatrixGeometry(Struct, frozen=True):
    """The number and size of the cells; recomputed when the widget's size or the nodes change."""

    size: int
    cell: int
    tall: int
    label: int
    header: int
    """Lines of the column names."""
    across: int
    """Columns of the matrix that are visible at once."""

    @property
    def lines(self) -> int:
        """Screen lines of all rows."""
        return self.size * self.tall


def shape_of(size: int, labels: list[str], shorts: list[str], width: int, height: int) -> MatrixGeometry:
    """Return the geometry with the widest cells with which all columns fit, else one that scrolls sideways.

    Args:
        size: Number of rows and columns.
        labels: Names of the rows.
        shorts: Names of the columns.
        width: Available screen columns.
        height: Available lines.
    """
    label = min(MAX_LABEL_WIDTH, max((len(text) for text in labels), default=0)) + 3
    longest = max((len(text) for text in shorts), default=1)
    fitting = [cell for cell in WIDTHS if label + size * cell <= width]
    cell = fitting[0] if fitting else LEGIBLE_COLUMNS if (width - label) // LEGIBLE_COLUMNS * 2 >= size else 1
    header = 1 if longest <= number_width(cell) else min(MAX_HEADER_HEIGHT, longest)
    room = height - 1 - header
    tall = MAX_CELL_ROWS if cell > LEGIBLE_COLUMNS and size * MAX_CELL_ROWS <= room else 1
    return MatrixGeometry(size, cell, tall, label, header, max(1, min(size, (width - label) // cell)))


class LinkMatrix(SelectableLines):
    """The widget with one cell per link, from row to column; the cursor moves over links.

    The title and the column names stay visible while the rows scroll.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*keys.LINK]
    DEFAULT_CSS: ClassVar[str] = "LinkMatrix { height: 8; }"

    def __init__(self, view: LinkView) -> None:
        super().__init__(id="matrix")
        self.view = view
        self.measure: Measure = MEASURES[0]
        self.place = (0, 0)
        """(source, destination) of the cursor, as indices of nodes or ranks."""
        self.room = MIN_LABEL_COLUMNS
        """Lines that it may use; set by the screen."""
        self.left = 0
        """The first visible column."""
        self.shape = MatrixGeometry(0, 1, 1, 4, 1, 1)
        self.labels: list[str] = []
        self.shorts: list[str] = []
        self._made_for: Hashable = None
        self._painted_for: Hashable = None
        self._shaped_for: Hashable = None
        self._cells: LinkCells
        self._testing: frozenset[tuple[int, int]] = frozenset()

    # ---- what is shown

    def prepare(self) -> None:
        view = self.view
        board, axis = view.board, view.view
        shaped_for = (id(board), axis, board.slots, self.columns, self.room)
        if shaped_for != self._shaped_for:
            self._shaped_for = shaped_for
            self.labels, self.shorts = axis_names(view)
            self.shape = shape_of(
                board.size(axis), self.labels, self.shorts, self.columns or self.app.size.width, self.room
            )
            self.pinned = 1 + self.shape.header
            self._clamp()
        painted_for = (id(board), self.measure, id(self.look), self.shape)
        if painted_for != self._painted_for:
            self._painted_for = painted_for
            self._cells = LinkCells(board, self.measure, self.shape.cell, self.look)
        if (made_for := (view.version, *painted_for)) != self._made_for:
            self._made_for = made_for
            self._testing = self._now_testing()

    def _now_testing(self) -> frozenset[tuple[int, int]]:
        view, results = self.view, self.view.results
        if results is None or not results.testing:
            return frozenset()
        number = {slot.rank: place for place, slot in enumerate(view.board.slots)}
        if view.view == "nodes":
            at = {node: place for place, node in enumerate(view.board.nodes)}
            number = {slot.rank: at[slot.node] for slot in view.board.slots}
        return frozenset(
            (number[src], number[dst]) for src, dst in results.testing if src in number and dst in number
        )

    def count(self) -> int:
        return self.pinned + self.shape.lines

    def wanted_height(self) -> int:
        return self.count()

    def key(self, line: int) -> Hashable:
        here = (self.place, self.has_focus)
        if line < self.pinned:
            return self._made_for, self.left, here
        row = (line - self.pinned) // self.shape.tall
        return self._made_for, self.left, here if row == self.place[0] else self.place[1]

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return self._title(width)
        if line < self.pinned:
            return self._header(line - 1)
        number, below = divmod(line - self.pinned, self.shape.tall)
        cells = self._cells_of(number)
        if below:
            blank = [Segment(" " * part.cell_length, part.style) for part in cells]
            return (Segment(" " * self.shape.label), *blank)
        here = number == self.place[0]
        name = fit(self.labels[number], self.shape.label - 3)
        mark = self.look.glyphs.cursor if here else " "
        style = self.look.strong if here else self.look.text
        return (Segment(f" {mark}", self.look.title), Segment(name + " ", style), *cells)

    def _cells_of(self, number: int) -> list[Segment]:
        shape, columns = self.shape, slice(self.left, self.left + self.shape.across)
        row = self._cells.row(self.view.view, number, columns)
        for source, target in self._testing:
            if source == number and columns.start <= target < columns.stop:
                row[target - columns.start] = self._cells.testing
        if self.view.view == "ranks" and columns.start <= number < columns.stop:
            row[number - columns.start] = (" " * shape.cell, self.look.text)
        if self.place[0] == number and columns.start <= self.place[1] < columns.stop:
            text, style = row[self.place[1] - columns.start]
            over = self.look.pointer if self.has_focus else style + Style(underline=True, bold=True)
            row[self.place[1] - columns.start] = (text, over)
        return joined(row)

    def _header(self, line: int) -> Row:
        """Return the painted line with index `line` of the column names.

        The names take one line if they fit, else a letter per line.
        """
        shape, columns = self.shape, range(self.left, min(self.shape.size, self.left + self.shape.across))
        dim, strong = self.look.dim, self.look.strong
        out: list[Cell] = [(" " * shape.label, dim)]
        for column in columns:
            name = self.shorts[column]
            if shape.header == 1:
                text = fit(name, number_width(shape.cell), ">").ljust(shape.cell)
            else:
                letter = name[-shape.header :].rjust(shape.header)[line]
                text = letter.rjust(number_width(shape.cell)).ljust(shape.cell)
            out.append((text, strong if column == self.place[1] else dim))
        return tuple(joined(out))

    def _title(self, width: int) -> Row:
        look = self.look
        left = [Segment(f" {TITLES[self.measure]} ", look.brand), Segment(" from row to column ", look.dim)]
        signs: list[Segment] = []
        counts = self.view.board.counts()
        for grade in reversed(GRADES[1:]):
            if counts[grade]:
                style = look.severity["critical" if CODES[grade] >= CODES["bad"] else "warning"]
                signs += [
                    Segment(f" {sign(grade, look)} {counts[grade]}", style),
                    Segment(f" {grade} ", look.dim),
                ]
        if self._testing:
            signs += [Segment(f" {look.glyphs.testing} ", look.brand), Segment(" now ", look.dim)]
        hidden = self.shape.size - self.shape.across
        more = f" {hidden} more columns" if hidden > 0 else ""
        worst = " each cell: its slowest link" if self.view.view == "nodes" else ""
        row = [*left, *signs]
        for text in (more, worst):
            if sum(part.cell_length for part in row) + len(text) <= width:
                row.append(Segment(text, look.dim))
        fits = sum(part.cell_length for part in row) <= width
        return tuple(row) if fits else (left[0], *signs)

    # ---- the cursor

    @property
    def is_current(self) -> bool:
        """True if the layout belongs to the shown board; if False, the next paint recomputes it."""
        return self.shape.size == len(self.view.board.cells(self.view.view))

    def items(self) -> int:
        return self.shape.size * self.shape.size

    def _clamp(self) -> None:
        last = max(0, self.shape.size - 1)
        self.place = (max(0, min(self.place[0], last)), max(0, min(self.place[1], last)))
        self.left = max(0, min(self.left, self.shape.size - self.shape.across))
        if not self.left <= self.place[1] < self.left + self.shape.across:
            self.left = max(
                0, min(self.place[1] - self.shape.across // 2, self.shape.size - self.shape.across)
            )

    def put(self, source: int, target: int) -> None:
        """Move the cursor to a link (indices, clamped), scroll to it, and post `Moved`."""
        self.place = (source, target)
        self._clamp()
        self.show_line(self.place[0] * self.shape.tall + self.pinned, span=self.shape.tall)
        self.pull()
        self.post_message(self.Moved(self))

    def put_on(self, source: int, target: int) -> None:
        """Move the cursor to the link between two ranks, or their nodes. Unknown ranks are ignored."""
        board = self.view.board
        places = {slot.rank: place for place, slot in enumerate(board.slots)}
        if source not in places or target not in places:
            return
        if self.view.view == "nodes":
            self.put(
                board.nodes.index(board.slots[places[source]].node),
                board.nodes.index(board.slots[places[target]].node),
            )
        else:
            self.put(places[source], places[target])

    def action_move(self, dx: int, dy: int) -> None:
        self.put(self.place[0] + dy, self.place[1] + dx)

    def action_pages(self, pages: float) -> None:
        self.put(self.place[0] + int(pages * self.page() / self.shape.tall), self.place[1])

    def action_jump_to_end(self, item: int) -> None:
        last = self.shape.size - 1
        self.put(*((0, 0) if item >= 0 else (last, last)))

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """Move the cursor to the clicked cell; choose it on the second click of a double click (`twice`)."""
        if line < self.pinned or x < self.shape.label:
            return
        row = (line - self.pinned) // self.shape.tall
        column = self.left + (x - self.shape.label) // self.shape.cell
        if not (row < self.shape.size and column < self.shape.size):
            return
        if (row, column) == self.place and twice:
            self.action_choose()
        else:
            self.put(row, column)

    # ---- gestures

    def cycle_measure(self, step: int) -> None:
        """Switch to the measure `step` places further, wrapping around."""
        self.measure = MEASURES[(MEASURES.index(self.measure) + step) % len(MEASURES)]
        self.pull()

    def turn(self, view: View) -> None:
        """Show links between nodes or between ranks, with the cursor on the worst link under it.

        On the first cell if there is none.
        """
        links = self.view.board.between(self.view.view, *self.place) if self.is_current else []
        self.view.view = view
        self.repaint()
        if links:
            worst = max(links, key=lambda each: CODES[each.grade] * 10 - (each.ratio or 0.0))
            self.put_on(worst.pair.src, worst.pair.dst)
        else:
            self.put(0, 0)

    def copy_text(self) -> str:
        if not self.labels:
            return ""
        return clean(f"{self.labels[self.place[0]]} -> {self.labels[self.place[1]]}")


def axis_names(view: LinkView) -> tuple[list[str], list[str]]:
    """Return (row names, column names) of the nodes or ranks.

    The columns of nodes are named without the beginning that all names share; those of ranks by number.
    """
    board = view.board
    if view.view == "ranks":
        labels = [f"{slot.node} {slot.local}" for slot in board.slots]
        return [clean(label) for label in labels], [str(slot.rank) for slot in board.slots]
    names = [clean(node) for node in board.nodes]
    same = 0
    while len(names) > 1 and len({name[: same + 1] for name in names}) == 1 and same < len(names[0]):
        same += 1
    return names, [name[same:] or name[-1:] for name in names]
