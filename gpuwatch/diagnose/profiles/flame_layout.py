"""Lays a call tree out as rows of boxes, callers on top; a box is as wide as its share of samples."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gpuwatch.diagnose.profiles.call_tree import CodeLine, StackCall, ThreadTree

MIN_CELLS = 2
BORDER = "|"
"""First character of every box, which shows its start without colours."""


SHARED = 0.97
"""Share of samples; frames that this share has in common are named above the graph, not drawn."""


class FlameBox(Struct, frozen=True):
    """A call as a box in a row of a flame graph: its left edge and width as shares of the row."""

    start: float
    """Left edge, 0 to 1."""
    width: float
    """Share of the thread's samples, 0 to 1."""
    call: StackCall


class FlameCell(Struct, frozen=True):
    """A box, or a gap between boxes, in the cells of a terminal."""

    text: str
    own: bool | None = None
    """True for the user's own code, False for libraries; None: a gap."""
    shade: int = 0
    """Shade of the cell, 0 or 1, by which adjacent boxes differ."""


def common_frames(tree: ThreadTree) -> tuple[list[CodeLine], StackCall]:
    """Return the frames that nearly all samples share, outermost first, and the tree's node of the last.

    The root if there are none.
    """
    shared: list[CodeLine] = []
    call = tree.root
    while call.calls:
        most = max(call.calls.values(), key=lambda each: each.samples)
        if most.samples < SHARED * tree.samples:
            break
        call = most
        shared.append(call.code)
    return shared, call


def shared_text(tree: ThreadTree, most: int = 3) -> str:
    """Return text with the innermost `most` of the frames that nearly all samples share; "": none."""
    shared, top = common_frames(tree)
    words = " > ".join(code.short for code in shared[-most:])
    return words and f"{'below' if top.calls else 'nearly always in'} {words}"


def flame_rows(top: StackCall, least: float, depth: int) -> list[list[FlameBox]]:
    """Return the calls below `top`, at most `depth` rows, one per level; no box is under `least` (0 to 1)."""
    rows: list[list[FlameBox]] = []
    row = [FlameBox(0.0, 1.0, top)]
    while len(rows) < depth:
        below: list[FlameBox] = []
        for box in row:
            start = box.start
            for call in box.call.ordered():
                width = call.samples / max(1, top.samples)
                if width >= least:
                    below.append(FlameBox(start, width, call))
                start += width
        if not below:
            break
        rows.append(below)
        row = below
    return rows


def flame_cells(
    tree: ThreadTree, width: int, depth: int, fit: Callable[[str, int], str]
) -> list[list[FlameCell]]:
    """Return the rows of a flame graph as terminal cells; every row fills `width` columns.

    At most `depth` rows. `fit` cuts or pads a text.
    """
    _shared, top = common_frames(tree)
    rows = []
    for number, boxes in enumerate(flame_rows(top, MIN_CELLS / max(1, width), depth)):
        row: list[FlameCell] = []
        filled = 0
        for index, box in enumerate(boxes):
            left, right = round(box.start * width), round((box.start + box.width) * width)
            if left > filled:
                row.append(FlameCell(" " * (left - filled)))
            left = max(left, filled)
            if right - left < MIN_CELLS:
                filled = left
                continue
            percent = 100.0 * box.call.samples / tree.samples
            words = f"{BORDER}{box.call.code.short} {percent:.0f}%"
            row.append(FlameCell(fit(words, right - left), box.call.code.own, (number + index) % 2))
            filled = right
        if filled < width:
            row.append(FlameCell(" " * (width - filled)))
        rows.append(row)
    return rows
