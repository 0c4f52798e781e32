"""The heat map: a cell for each GPU of each node; in a folded fleet for each node of each group."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style

from gpuwatch.fleet.nodes.metrics import HEAT_METRICS, METRICS
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.fleet.folding.ways import Folding
from gpuwatch.tui.fleet.heat_cells import Cell, CellPainter
from gpuwatch.tui.fleet.heat_layout import CELL_WIDTHS, Block, HeatLayout, arrange
from gpuwatch.tui.fleet.heat_rows import GpuRows, HeatRows, NodeRows, Place
from gpuwatch.tui.fleet.node_filter import Shown
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import fit

MEANINGS = {
    "util": "% of time with at least one kernel running",
    "mem": "% of GPU memory",
    "temp": "degrees C, scale up to the slowdown threshold",
    "powerpct": "% of the enforced power limit",
    "tensor": "% of time with tensor cores active",
    "age": "seconds since the last sample",
}


class HeatMap(SelectableLines):
    """The widget with the rows of cells under a title line; the cursor moves over cells."""

    DEFAULT_CSS: ClassVar[str] = "HeatMap { height: 8; }"
    pinned = 1

    def __init__(self, shown: Shown) -> None:
        super().__init__(id="heat")
        self.shown = shown
        self.metric = METRICS[HEAT_METRICS[0]]
        self.zoom: int | None = None
        self.room = 8
        """Lines that the map may use; set by the screen."""
        self.spare = 0
        """Lines that it may use for taller cells; set by the screen."""
        self.place: Place = (0, 0)
        """The cell under the cursor."""
        self._node = ""
        """The name of that node, on which the cursor stays when the filter changes."""
        self.layout_now: HeatLayout = arrange([], [], 80, 1)
        self._shape: Hashable = None
        self._rows: HeatRows = GpuRows(shown)
        self._rows_of: tuple[list[NodeView], Folding | None] = shown.views, None
        self._painter: CellPainter  # `prepare` makes it
        self._painted_for: Hashable = None
        self._kept: dict[tuple[str, int], tuple[Hashable, list[Segment]]] = {}

    # ---- what is shown

    @property
    def rows(self) -> HeatRows:
        """The rows of the nodes and groups that are shown now."""
        of = self.shown.views, self.shown.folding
        if of[0] is not self._rows_of[0] or of[1] is not self._rows_of[1]:
            self._rows_of = of
            self._rows = GpuRows(self.shown) if of[1] is None else NodeRows(self.shown.groups)
        return self._rows

    def prepare(self) -> None:
        names, counts = self.rows.names, self.rows.counts()
        shape = (names, tuple(counts), self.across(), self.room, self.spare, self.zoom)
        if shape != self._shape:
            self._shape = shape
            width, height = max(10, self.across()), max(1, self.room - 1)
            self.layout_now = arrange(names, counts, width, height, self.zoom, self.spare - 1)
            found, chosen = self.rows.place_of(self._node), self.place[1]
            if found is not None:
                self.place = (found[0], chosen) if self.shown.folding is None else found
            self._clamp()
            self._to_a_match()
            self._remember()
        painted_for = (
            self.metric.name,
            self.layout_now.cell,
            self.shown.version,
            id(self.look),
            self._moment(),
        )
        if painted_for != self._painted_for:
            self._painted_for = painted_for
            self._painter = CellPainter(self.metric, self.layout_now.cell, self.look)
            self._kept.clear()

    def across(self) -> int:
        """Return the number of columns; before the first layout, the width of the terminal."""
        return self.columns or self.app.size.width

    def _to_a_match(self) -> None:
        """Move the cursor to the first GPU that matches the filter, unless it is on one."""
        wanted, chosen = self.shown.gpus, self.chosen()
        if wanted is not None and not (chosen and chosen[1] and chosen[1].info.uuid in wanted):
            self.place = self.rows.first_match() or self.place

    def count(self) -> int:
        return 1 + self.layout_now.height()

    def wanted_height(self) -> int:
        return min(self.room, self.count())

    def key(self, line: int) -> Hashable:
        settings = (self.metric.name, self.shown.version, self.shown.gpus is None)
        if line == 0:
            return (settings, len(self.shown.views), self._scale(), self.layout_now.cell)
        blocks = self.layout_now.lines[(line - 1) // self.layout_now.tall]
        nodes = tuple([self._rows.stamp(block.node) for block in blocks])
        on_line = blocks and blocks[0].node <= self.place[0] <= blocks[-1].node
        return (
            settings,
            self._shape,
            nodes,
            (self.place, self.has_focus) if on_line else None,
            self._moment(),
        )

    def _moment(self) -> int:
        """Return the current time in half seconds if cells depend on the time (ages, filters), else 0."""
        return int(self.view_state.now * 2) if self.metric.name == "age" or self.shown.narrowed else 0

    def forget(self) -> None:
        self._kept.clear()

    # ---- painting

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return self._title(width)
        number, below = divmod(line - 1, self.layout_now.tall)
        out: list[Segment] = []
        x = 0
        for position, block in enumerate(self.layout_now.lines[number]):
            if self.layout_now.labels == "each" or position == 0:
                start = block.x - self.layout_now.label_width
                out += [Segment(" " * (start - x)), *self._label(block)]
            else:
                out.append(Segment(" " * (block.x - x)))
            cells = self._cells_of(block)
            out += cells
            x = block.x + sum(segment.cell_length for segment in cells)
        if below != (self.layout_now.tall - 1) // 2:
            return tuple(Segment(" " * s.cell_length, s.style) for s in out)
        return tuple(out)

    def _label(self, block: Block) -> list[Segment]:
        width = self.layout_now.label_width
        if block.start:
            return [Segment(" " * width)]
        severity, old = self._rows.label(block.node)
        name = fit(self._rows.names[block.node], width - 3) + " "
        style = self.look.stale if old else self.look.severity[severity]
        if severity == "ok":
            style = self.look.text
        here = block.node == self.place[0]
        return [
            self.look.mark(severity),
            Segment(" "),
            Segment(name, style + self.look.strong if here else style),
        ]

    def _cells_of(self, block: Block) -> list[Segment]:
        """Return the segments of a block, cached until its row changes; not cached under the cursor."""
        if block.node == self.place[0]:
            return self._cells(block)
        name, stamp = self._rows.names[block.node], self._rows.stamp(block.node)
        kept = self._kept.get((name, block.start))
        if kept is None or kept[0] != stamp:
            kept = self._kept[name, block.start] = (stamp, self._cells(block))
        return kept[1]

    def _cells(self, block: Block) -> list[Segment]:
        if words := self._rows.words(block.node):
            return self._words(words, block)
        cells = self._rows.cells(block.node, block.start, block.stop, self._painter, self.view_state.now)
        runs: list[Cell] = []
        for index, (text, style) in enumerate(cells, block.start):
            if (block.node, index) == self.place:
                over = self.look.pointer if self.has_focus else style + Style(underline=True, bold=True)
                runs += [(text, over), ("", Style())]
            elif runs and runs[-1][1] is style:
                runs[-1] = (runs[-1][0] + text, style)
            else:
                runs.append((text, style))
        return [Segment(text, style) for text, style in runs if text]

    def _words(self, words: str, block: Block) -> list[Segment]:
        """Return the segment with the reason why a node has no cells.

        The text is one cell wide if the map is too dense for more.
        """
        width = self.layout_now.cell if self.layout_now.labels == "first" else self.layout_now.span
        here = block.node == self.place[0] and self.has_focus
        style = self.look.pointer if here else self.look.dim
        text = fit(words, width) if width > 3 else self.look.glyph("unknown").center(width)
        return [Segment(text, style)]

    def _title(self, width: int) -> Row:
        look, glyphs = self.look, self.look.glyphs
        left = [Segment(f" {self.metric.title} ", look.brand), Segment(" ")]
        low, high = self._scale()
        legend = [
            Segment(f"{low} ", look.dim),
            *(Segment(" " if look.colours == "many" else "#", s) for s in look.ramp),
            Segment(f" {high}", look.dim),
        ]
        signs = [
            Segment(f"  {glyphs.lost}", look.severity["critical"]),
            Segment(" lost ", look.dim),
            Segment(f" {glyphs.stuck}", look.severity["warning"]),
            Segment(" stuck ", look.dim),
            Segment(f" {glyphs.stale}", look.stale),
            Segment(" stale", look.dim),
        ]
        full = "  99 = 99-100" if self.metric.unit == "%" else "  99 = 99 or more"
        tenths = "  digit: tenths of the scale"
        note = {1: tenths, 2: tenths, 3: full}.get(self.layout_now.cell, "")
        if self.shown.folding is not None:
            note = f"  by {self.shown.folding.name}, a cell for each node{note}"
        used = sum(s.cell_length for s in (*left, *legend, *signs))
        room = width - used - len(note)
        meaning = MEANINGS.get(self.metric.name, "")
        meaning = meaning if room > len(meaning) + 4 else ""
        return (
            *left,
            *legend,
            *signs,
            Segment(note if room >= 0 else "", look.dim),
            Segment(f"   {meaning}" if meaning else "", look.dim),
        )

    def _scale(self) -> tuple[str, str]:
        for view in self.shown.views:
            for gpu in view.gpus:
                scale = self.metric.scale(gpu)
                if scale is not None:
                    return tuple(self.metric.format(end).strip() for end in scale)  # type: ignore[return-value]  # a scale has two ends
        low, high = (self.metric.format(end).strip() for end in (0.0, 100.0))
        return (low, high) if self.metric.unit == "%" else ("", "")

    # ---- the cursor

    def chosen(self) -> tuple[NodeView, Gpu | None] | None:
        """Return the node and GPU under the cursor; None without nodes.

        The GPU is None if it never appeared, and in a folded fleet, where a cell is a node.
        """
        self._clamp()
        return self.rows.at(self.place) if self.shown.views else None

    def items(self) -> int:
        return sum(max(1, cells) for cells in self.rows.counts())

    def _clamp(self) -> None:
        counts = self.rows.counts()
        node = max(0, min(self.place[0], len(counts) - 1))
        gpu = max(0, min(self.place[1], (counts[node] if counts else 1) - 1))
        self.place = (node, gpu)

    def _remember(self) -> None:
        self._node = self.rows.at(self.place)[0].name if self.shown.views else ""

    def put(self, node: int, gpu: int) -> None:
        """Move the cursor to the cell of a GPU (indices, clamped), scroll to it, and post `Moved`."""
        self.place = (node, gpu)
        self._clamp()
        self._remember()
        if found := self.layout_now.block_of(*self.place):
            self.show_line(found[0] * self.layout_now.tall + 1, span=self.layout_now.tall)
        self.pull()
        self.post_message(self.Moved(self))

    def put_on_node(self, name: str) -> None:
        """Move the cursor to the node of this name, unless it is there or the node is not shown."""
        chosen, found = self.chosen(), self.rows.place_of(name)
        if found is not None and (chosen is None or chosen[0].name != name):
            self.put(*found)

    def action_move(self, dx: int, dy: int) -> None:
        node, gpu = self.place
        found = self.layout_now.block_of(node, gpu)
        if dx or found is None:
            self._walk(dx)
            return
        line, block = found
        to = max(0, min(line + dy, len(self.layout_now.lines) - 1))
        x = block.x + (gpu - block.start) * self.layout_now.cell
        target = min(self.layout_now.lines[to], key=lambda b: abs(b.x - block.x))
        self.put(
            target.node,
            target.start + min((x - block.x) // self.layout_now.cell, max(0, target.stop - target.start - 1)),
        )

    def _walk(self, dx: int) -> None:
        node, gpu = self.place
        counts = self.rows.counts()
        if 0 <= gpu + dx < (counts[node] if counts else 0):
            self.put(node, gpu + dx)
        elif 0 <= node + dx < len(counts):
            self.put(node + dx, 0 if dx > 0 else counts[node + dx] - 1)

    def action_pages(self, pages: float) -> None:
        self.action_move(0, int(pages * self.page() / self.layout_now.tall))

    def action_jump_to_end(self, item: int) -> None:
        last = len(self.rows.names) - 1
        self.put(0, 0) if item >= 0 else self.put(last, 1 << 30)

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """Move the cursor to the clicked cell; open it if it is clicked again.

        Outside of the cells do nothing. `twice`: this is the second click of a double click.
        """
        hit = self.layout_now.hit((line - 1) // self.layout_now.tall, x) if line else None
        if hit is None:
            return
        if hit == self.place and twice:
            self.action_choose()
        else:
            self.put(*hit)

    # ---- gestures

    def cycle_metric(self, step: int) -> None:
        """Switch to the metric `step` places further, wrapping around."""
        at = HEAT_METRICS.index(self.metric.name)
        self.metric = METRICS[HEAT_METRICS[(at + step) % len(HEAT_METRICS)]]
        self.pull()

    def cycle_zoom(self) -> None:
        """Switch from automatic cell sizes to the largest, then to smaller ones, then back to automatic."""
        self.zoom = 0 if self.zoom is None else self.zoom + 1
        if self.zoom >= len(CELL_WIDTHS):
            self.zoom = None
