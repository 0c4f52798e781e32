"""The pairs of a probe as a bandwidth matrix, by rank, or by node if there are many ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len

from gpuwatch.blocks.model import Line
from gpuwatch.number_text import UNKNOWN, rate_text, share_text
from gpuwatch.plain import plain
from gpuwatch.probe.judging.links.links import BAD_RATIO, NOISY_SPREAD, OK_RATIO, Grade, MeasuredLink, graded
from gpuwatch.probe.judging.text.grade_symbols import Marks
from gpuwatch.probe.results import RankSlot, Results
from gpuwatch.report.probe.format import GRAVITY, STYLES
from gpuwatch.report.probe.links import culprit_nodes, error_lines, node_summary, slow_lines
from gpuwatch.report.probe.tables import padded

MAX_RANKS = 16
"""If a probe has more ranks than this, the matrix has a row per node."""
MAX_NODES = 16
"""With more nodes than this, the worst links and a line per node are shown."""
MAX_NAME_WIDTH = 18


class Cell(Struct, frozen=True):
    """The text and grade of a matrix field."""

    text: str
    grade: Grade = "ok"


def pair_lines(results: Results, marks: Marks, width: int | None) -> list[Line]:
    """Return all lines about pairs: the matrix (a summary if there are many nodes), slowest links, errors."""
    if not results.pairs:
        return []
    links = graded(results)
    nodes = list(dict.fromkeys(slot.node for slot in results.slots))
    if len(results.slots) <= MAX_RANKS:
        lines = [Line("from (row) to (column), GB/s"), *rank_matrix(links, results.slots, marks, width)]
    elif len(nodes) <= MAX_NODES:
        title = "from (row) to (column), GB/s: the slowest link of two nodes, and inside one"
        lines = [Line(title), *node_matrix(links, nodes, marks, width)]
    else:
        lines = node_summary(links, nodes, culprit_nodes(results), marks, width)
    return [*lines, *legend(links, marks), *slow_lines(links, results), *error_lines(links)]


def rank_matrix(
    links: Iterable[MeasuredLink], slots: Sequence[RankSlot], marks: Marks, width: int | None
) -> list[Line]:
    """Return the lines of a matrix with a field for every pair of ranks."""
    cells = {link.key: cell_of(link, marks) for link in links}
    by_rank = {slot.rank: slot for slot in slots}

    def name(rank: int) -> str:
        slot = by_rank[rank]
        return f"{rank:>2} {slot.node}" if slot.gpu is None else f"{rank:>2} {slot.name}"

    return matrix_lines(sorted(by_rank), cells, name, width)


def node_matrix(
    links: Iterable[MeasuredLink], nodes: Sequence[str], marks: Marks, width: int | None
) -> list[Line]:
    """Return the lines of a matrix with a field for every pair of nodes: their worst link."""
    places = {node: number for number, node in enumerate(nodes)}
    worst: dict[tuple[int, int], MeasuredLink] = {}
    for link in links:
        key = places.get(link.src.node, -1), places.get(link.dst.node, -1)
        if key not in worst or gravity(link) < gravity(worst[key]):
            worst[key] = link
    cells = {key: cell_of(link, marks) for key, link in worst.items()}
    return matrix_lines(range(len(nodes)), cells, lambda number: f"{number:>2} {nodes[number]}", width)


def cell_of(link: MeasuredLink, marks: Marks) -> Cell:
    """Return a matrix cell with the bandwidth of a link and the mark of its grade; `FAILED` if it is dead."""
    if link.grade == "dead":
        return Cell("FAILED", link.grade)
    return Cell(marks.get(link.grade, "") + rate_text(link.rate), link.grade)


def gravity(link: MeasuredLink) -> tuple[int, float]:
    """Return a sort key: worst grade first, then slowest."""
    return GRAVITY.index(link.grade), link.rate or 0.0


def matrix_lines(
    keys: Sequence[int], cells: dict[tuple[int, int], Cell], name: Callable[[int], str], width: int | None
) -> list[Line]:
    """Return rows of cells under column numbers; columns that do not fit into `width` continue below.

    `name`: the heading of a row by its key. `width`: columns of the terminal; None: unlimited.
    """
    names = {key: clipped(plain(name(key))) for key in keys}
    label = max(map(cell_len, names.values()))
    wide = 1 + max(cell_len(text) for text in (*(cell.text for cell in cells.values()), *map(str, keys)))
    fit = len(keys) if width is None else max(1, (width - label) // wide)
    even = math.ceil(len(keys) / math.ceil(len(keys) / fit))
    lines: list[Line] = []
    for start in range(0, len(keys), even):
        columns = keys[start : start + even]
        heads = "".join(padded(str(key), wide, right=True) for key in columns)
        lines.append(Line(" " * label + heads, "muted"))
        for row in keys:
            fields = [field(cells, row, column) for column in columns]
            style = STYLES[min((each.grade for each in fields), key=GRAVITY.index)]
            text = "".join(padded(each.text, wide, right=True) for each in fields)
            lines.append(Line((padded(names[row], label, right=False) + text).rstrip(), style))
    return lines


def field(cells: dict[tuple[int, int], Cell], row: int, column: int) -> Cell:
    """Return the cell; a dash if it was not measured, an empty one on the diagonal."""
    return cells.get((row, column), Cell("" if row == column else UNKNOWN))


def clipped(text: str) -> str:
    """Return a name; a long one is shortened in the middle, because names differ mostly at the end."""
    if cell_len(text) <= MAX_NAME_WIDTH:
        return text
    return f"{text[:6]}..{text[-(MAX_NAME_WIDTH - 8) :]}"


def legend(links: Iterable[MeasuredLink], marks: Marks) -> Iterator[Line]:
    """Yield a line with the meaning of the marks in the matrix, if there are any."""
    grades = {link.grade for link in links}
    words: dict[Grade, str] = {
        "bad": f"under {share_text(BAD_RATIO)}",
        "low": f"under {share_text(OK_RATIO)}",
        "noisy": f"slow, but repeats differ by over {share_text(NOISY_SPREAD)}",
    }
    reported = [f"{marks[grade]} {text}" for grade, text in words.items() if grade in grades]
    if reported:
        yield Line(f"of the 90th percentile of its link class: {', '.join(reported)}", "muted")
