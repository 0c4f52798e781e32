"""Computes where each GPU's cell goes: nodes as blocks of cells, as large as possible. Pure geometry."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Labels: TypeAlias = Literal["each", "first"]

CELL_WIDTHS: tuple[tuple[int, Labels], ...] = (
    (7, "each"), (6, "each"), (5, "each"), (4, "each"), (3, "each"), (2, "each"), (2, "first"), (1, "first"),
)  # fmt: skip
"""(cell width per GPU, labels: every node or only the first of a line), from roomy to dense."""
MAX_LABEL_WIDTH = 24
USUAL_GPUS = 8
"""Number of GPUs reserved for nodes that have not reported any yet."""
TALLEST = 3
SHORT_LINE_COST = 0.25
"""Cost of a last line without blocks, as a share of the width: 16 nodes are arranged 4 x 4, not in threes."""
LEGIBLE_CELL = 3
"""Width of a cell that holds a whole number; a layout with such cells is preferred if it fits the height."""


class Block(Struct, frozen=True):
    """A run of one node's GPUs on one line: `node` is its index, the GPUs are `start` to `stop` - 1."""

    node: int
    start: int
    stop: int
    x: int
    """The column of the first cell."""


class HeatLayout(Struct, frozen=True):
    """The whole map as lines of blocks. Line numbers count lines of blocks, not screen lines."""

    cell: int
    labels: Labels
    label_width: int
    span: int
    """Columns of the longest possible run of cells of a block."""
    lines: list[list[Block]]
    tall: int = 1
    """Screen lines per line of blocks."""

    def height(self) -> int:
        """Return the number of screen lines."""
        return len(self.lines) * self.tall

    def used_width(self) -> int:
        """Return the columns that the widest line uses."""
        return max(
            (line[-1].x + (line[-1].stop - line[-1].start) * self.cell for line in self.lines), default=0
        )

    def score(self) -> float:
        """Return how well the width is used, for comparison: wide lines, wide cells and a full last line."""
        if not self.lines:
            return 0.0
        missing = 1 - len(self.lines[-1]) / max(len(line) for line in self.lines)
        return self.used_width() * (1 - SHORT_LINE_COST * missing) + 4 * self.cell

    def block_of(self, node: int, gpu: int) -> tuple[int, Block] | None:
        """Return the line number and the block of a GPU's cell; `node` and `gpu` are indices.

        None: no cell.
        """
        for line, blocks in enumerate(self.lines):
            if blocks and blocks[0].node <= node <= blocks[-1].node:
                for block in blocks:
                    if block.node == node and block.start <= gpu < max(block.stop, block.start + 1):
                        return line, block
        return None

    def hit(self, line: int, x: int) -> tuple[int, int] | None:
        """Return the (node, GPU) indices at a line and column; None outside of the cells.

        A node without GPUs: GPU 0.
        """
        if not 0 <= line < len(self.lines):
            return None
        for block in self.lines[line]:
            gpu = block.start + (x - block.x) // self.cell
            if block.x <= x and gpu < block.stop:
                return block.node, gpu
            if block.start == block.stop and block.x <= x < block.x + self.span:
                return block.node, 0
        return None


def _build(names: Sequence[str], counts: Sequence[int], width: int, cell: int, labels: Labels) -> HeatLayout:
    label = min(MAX_LABEL_WIDTH, max((len(name) for name in names), default=0)) + 3
    label = min(label, max(4, width // 2))
    gap = 1 if labels == "first" else 2
    most = max(counts, default=0) or USUAL_GPUS
    per_line = max(1, min(most, (width - label) // cell))
    per_line = ceil(most / ceil(most / per_line))  # lines of a row of equal length: 32 cells as 16 and 16
    if labels == "each":
        pitch = label + per_line * cell + gap
        across = max(1, (width + gap) // pitch)
        starts = [index * pitch + label for index in range(across)]
    else:
        pitch = per_line * cell + gap
        across = max(1, (width - label + gap) // pitch)
        starts = [label + index * pitch for index in range(across)]
    pieces = [
        (node, start, min(count, start + per_line))
        for node, count in enumerate(counts)
        for start in range(0, max(1, count), per_line)
    ]
    lines = [
        [Block(*piece, x) for piece, x in zip(pieces[at : at + across], starts, strict=False)]
        for at in range(0, len(pieces), across)
    ]
    return HeatLayout(cell, labels, label, per_line * cell, lines)


def arrange(
    names: Sequence[str],
    counts: Sequence[int],
    width: int,
    height: int,
    zoom: int | None = None,
    spare: int = 0,
) -> HeatLayout:
    """Return the layout that fits the height and uses the width best; else the densest one, which scrolls.

    Layouts whose cells hold whole numbers compete by `score`; if none of them fits the height, the widest
    cells that do are taken. Its lines become two or three screen lines high if that needs at most `spare`
    lines in all.

    Args:
        names: The nodes' names, in order.
        counts: Number of cells of each node.
        width: Columns of the map.
        height: Available lines.
        zoom: An index into `CELL_WIDTHS` to use regardless of the height.
        spare: Lines that the map may use with taller cells.
    """
    if zoom is not None:
        return _build(names, counts, width, *CELL_WIDTHS[zoom])
    layout = _fitting(names, counts, width, height)
    tall = min(TALLEST, spare // max(1, len(layout.lines)))
    return replace(layout, tall=tall) if layout.cell >= LEGIBLE_CELL and tall > 1 else layout


def _fitting(names: Sequence[str], counts: Sequence[int], width: int, height: int) -> HeatLayout:
    layouts = [_build(names, counts, width, cell, labels) for cell, labels in CELL_WIDTHS]
    fitting = [layout for layout in layouts if len(layout.lines) <= height]
    legible = [layout for layout in fitting if layout.cell >= LEGIBLE_CELL]
    if legible:
        return max(legible, key=HeatLayout.score)
    return fitting[0] if fitting else layouts[-1]
