"""Draws flame graphs on a terminal, callers on top; two side by side if there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import set_cell_size
from rich.text import Text

from gpuwatch.diagnose.profiles.call_tree import ThreadTree
from gpuwatch.diagnose.profiles.flame_layout import flame_cells, shared_text
from gpuwatch.report.output.console import STYLES

OWN_STYLES = ("#000000 on #ffb454", "#000000 on #ff9a3c")
LIBRARY_STYLES = ("#ffffff on #2f5d8a", "#ffffff on #3f6f9f")
"""The styles of user code and of libraries: two shades each, so that neighbouring boxes differ."""
MAX_DEPTH = 18
BESIDE_COLUMNS = 110
"""Columns from which two flame graphs are shown side by side."""


def flame_lines(flames: Sequence[tuple[str, ThreadTree]], columns: int) -> Iterator[Text]:
    """Yield the flame graphs of threads below their headings; two side by side if `columns` suffice."""
    beside = len(flames) == 2 and columns >= BESIDE_COLUMNS
    width = (columns - 2) // 2 if beside else columns
    drawn = [[*_head(heading, tree, width), *_rows(tree, width)] for heading, tree in flames]
    if not beside:
        for part in drawn:
            yield Text("")
            yield from part
        return
    yield Text("")
    for number in range(max(map(len, drawn))):
        yield Text("  ").join(part[number] if number < len(part) else Text(" " * width) for part in drawn)


def _head(heading: str, tree: ThreadTree, width: int) -> Iterator[Text]:
    shared = shared_text(tree)
    for words, style in ((heading, "bold"), (shared, STYLES["muted"])):
        line = Text(words, style)
        line.truncate(width, overflow="ellipsis", pad=True)
        yield line


def _rows(tree: ThreadTree, width: int) -> Iterator[Text]:
    for row in flame_cells(tree, width, MAX_DEPTH, set_cell_size):
        line = Text()
        for cell in row:
            styles = OWN_STYLES if cell.own else LIBRARY_STYLES
            line.append(cell.text, None if cell.own is None else styles[cell.shade])
        yield line
