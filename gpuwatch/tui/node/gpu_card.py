"""Paints one GPU of a node as one line, two lines or a card, from its values. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from rich.segment import Segment
from rich.style import Style

from gpuwatch.fleet.nodes.last_ranks import ended_ranks, ranks_on
from gpuwatch.number_text import seconds_text
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.node.gpu_columns import GpuValue, fitting
from gpuwatch.tui.node.gpu_subject import Subject, mark_columns, mark_styles
from gpuwatch.tui.toolkit.charts import bar, marked, sparkline
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.toolkit.text import rank_text, trouble_of, trouble_severity

Shape: TypeAlias = Literal["line", "pair", "card"]
AROUND_CARD = 2
"""Lines of a card besides those of its values: the title, and the line with links and health."""
BEFORE = 13
"""Cells before the first column of a line: mark, index and ranks."""
NEAR_SLOWDOWN = 0.9
"""From this fraction of the temperature scale, which ends at the slowdown temperature, a GPU is near it."""
CARD_WIDTH = 64
"""Below this width a card is too narrow."""


def lines_of(shape: Shape, columns: int) -> int:
    """Return how many lines a GPU takes in this shape, with this number of columns on a card."""
    return {"line": 1, "pair": 2, "card": AROUND_CARD + columns}[shape]


def shape_for(gpus: int, columns: int, width: int, height: int) -> tuple[Shape, int]:
    """Return the largest shape with which all GPUs fit (else `line`), and how many GPUs are side by side.

    `columns` is the number of values of a GPU, `width` and `height` are the available screen cells.
    """
    for across in range(1, max(1, min(gpus, width // CARD_WIDTH)) + 1):
        if width >= CARD_WIDTH and -(-gpus // across) * lines_of("card", columns) <= height:
            return "card", across
    return ("pair", 1) if gpus * 2 + 1 <= height else ("line", 1)


def _first_words(subject: Subject) -> tuple[str, Severity | None]:
    """Return the text that precedes the numbers, and its severity; ("", None) if there is nothing to state.

    The first of: trouble, age of old values, recovery action that the driver requests, throttle reasons.
    """
    if trouble := trouble_of(subject.gpu, subject.now):
        return trouble, trouble_severity(subject.gpu)
    if subject.view.state != "live":
        age = subject.gpu.age(subject.now)
        return f"values {'never read' if age is None else seconds_text(age) + ' old'}", "warning"
    slow = subject.gpu.slow
    if slow and slow.recovery_action not in (None, "none"):
        return f"needs {str(slow.recovery_action).replace('_', ' ')}", "critical"
    held = subject.throttle()
    return (", ".join(held), None if held == ["power cap"] else "warning") if held else ("", None)


def line_heading(columns: Sequence[GpuValue], width: int, look: StyleSet) -> Row:
    """Return the heading above GPUs that take one or two lines each."""
    words = "   GPU  rank "
    for each in fitting(columns, width, width - BEFORE):
        words += f"{each.heading:>{each.bar_cells(width) + each.width}}  "
    if width >= len(words) + 12:
        words += "throttle reason"
    return (Segment(fit(words.rstrip(), width), look.dim),)


def as_line(subject: Subject, columns: Sequence[GpuValue], width: int, look: StyleSet) -> Row:
    """Return a GPU as one line: bars and numbers, or its trouble if it does not answer."""
    style = look.stale if subject.old else look.text
    heat = look.severity["unknown" if subject.old else "ok"]
    running = ranks_on(subject.node, subject.gpu.info.uuid)
    ranks = ",".join(map(str, running or ended_ranks(subject.node, subject.gpu))) or "-"
    words, severity = _first_words(subject)
    held = severity == "warning" and not subject.old
    head = (
        look.mark(subject.severity),
        Segment(f" {subject.gpu.info.index:>3} ", look.strong),
        Segment(fit(ranks, 5, ">") + "  ", look.text if running else look.stale),
    )
    if subject.gpu.state != "ok":
        return (*head, Segment(fit(f" {words} ", width - BEFORE), look.badge[trouble_severity(subject.gpu)]))
    parts = list(head)
    for each in fitting(columns, width, width - BEFORE):
        parts += bar(subject.level(each.metric), each.bar_cells(width), look, heat)
        ink = look.severity["warning"] if held and each.name == "clock" else style
        parts.append(Segment(f"{fit(each.text(subject), each.width, '>')}  ", ink))
    room = width - sum(p.cell_length for p in parts)
    return (*parts, Segment(fit(words, room), look.severity[severity] if severity else look.dim))


def as_pair(subject: Subject, columns: Sequence[GpuValue], width: int, look: StyleSet) -> list[Row]:
    """Return a GPU as two lines: the line, and its histories below."""
    ink = look.severity["unknown" if subject.old else "ok"]
    row = [Segment(" " * BEFORE)]
    for each in fitting(columns, width, width - BEFORE):
        row += [*_plot(subject, each, each.bar_cells(width) + each.width, look, ink), Segment("  ")]
    room = width - sum(p.cell_length for p in row)
    links = _links(subject)
    while links and len("  ".join(links)) > room:
        links.pop()
    line = as_line(subject, columns, width, look)
    return [line, (*row, Segment("  ".join(links), look.dim))]


def _plot(subject: Subject, column: GpuValue, cells: int, look: StyleSet, ink: Style) -> list[Segment]:
    points = _plotted_s(cells, look)
    line = sparkline(subject.history(column.metric, points), *column.scale(subject), cells, look.glyphs)
    return marked(line, mark_styles(mark_columns(subject.marks, points, cells), look), look, ink)


def _plotted_s(cells: int, look: StyleSet) -> int:
    """Return the seconds that a plot of one line shows."""
    return cells * 2 if look.glyphs.braille else cells


def _links(subject: Subject) -> list[str]:
    info, medium, slow = subject.gpu.info, subject.gpu.medium, subject.gpu.slow
    parts = []
    if medium and medium.pcie_gen:
        most = f" of gen{info.pcie_gen_max} x{info.pcie_width_max}" if info.pcie_gen_max else ""
        same = (medium.pcie_gen, medium.pcie_width) == (info.pcie_gen_max, info.pcie_width_max)
        parts.append(f"PCIe gen{medium.pcie_gen} x{medium.pcie_width}{'' if same else most}")
    if slow and slow.nvlink_active is not None:
        parts.append(f"NVLink {slow.nvlink_active}" + (f"/{info.nvlink_count}" if info.nvlink_count else ""))
    return parts


def _health(subject: Subject) -> str:
    slow = subject.gpu.slow
    if slow is None:
        return "ECC -  remap -"
    ecc = "-" if slow.ecc_uncorrected is None else str(slow.ecc_uncorrected)
    soft = "-" if slow.ecc_corrected is None else str(slow.ecc_corrected)
    remap = "failed" if slow.remap_failed else "pending" if slow.remap_pending else "-"
    if remap == "-" and slow.remapped_uncorrectable is not None:
        remap = str((slow.remapped_correctable or 0) + slow.remapped_uncorrectable)
    recovery = slow.recovery_action if slow.recovery_action not in (None, "none") else ""
    return f"ECC {ecc} uncorr. {soft} corr.  remap {remap}" + (f"  recovery: {recovery}" if recovery else "")


def as_card(
    subject: Subject, columns: Sequence[GpuValue], width: int, look: StyleSet, *, chosen: bool
) -> list[Row]:
    """Return a GPU as a title, a line per column with bar, number and history, and links and health."""
    info = subject.gpu.info
    ranks, runs = rank_text(subject.node, subject.gpu, subject.now)
    words, severity = _first_words(subject)
    plain = look.colours != "many" and chosen  # the ground alone does not mark it there
    head = f"{look.glyphs.cursor if plain else ' '}GPU {info.index} "
    title = [
        look.mark(subject.severity),
        Segment(head, look.brand if chosen else look.strong),
        Segment(f" {clean(info.name)}  ", look.text),
        Segment(f"rank {ranks}  " if ranks else "", look.title if runs else look.dim),
    ]
    room = width - sum(p.cell_length for p in title)
    if not words and room <= _plot_cells(width) + 1 < room + title[2].cell_length:
        title[2] = Segment(" ")  # the axis of the plots instead of the model, which the header names
        room = width - sum(p.cell_length for p in title)
    loud = severity == "critical"
    stated = f" {clean(words)} " if loud else clean(words)
    style = look.badge["critical"] if loud else look.severity[severity] if severity else look.dim
    title.append(Segment(fit(stated, min(room, len(stated))) if room > 0 else "", style))
    rows: list[Row] = [_over_plot(title, width, look)]
    rows += [_measured(subject, each, width, look) for each in columns]
    footer = "  " + "  ".join([*_links(subject), _health(subject)])
    rows.append((Segment(fit(footer, width), look.dim),))
    return rows


def _over_plot(title: list[Segment], width: int, look: StyleSet) -> Row:
    """Return the title of a card, with the time span of its plots above them if there is room."""
    room, cells = width - sum(p.cell_length for p in title), _plot_cells(width)
    if room <= cells + 1:
        return (*title, Segment(" " * max(0, room)))
    axis = f"-{_plotted_s(cells, look)} s".ljust(cells - 3) + "now "
    return (*title, Segment(fit(axis, room, ">"), look.dim))


def _bar_cells(width: int) -> int:
    return max(6, (width - 25) * 2 // 5)


def _plot_cells(width: int) -> int:
    return max(6, width - 25 - _bar_cells(width))


def _measured(subject: Subject, column: GpuValue, width: int, look: StyleSet) -> Row:
    level = subject.level(column.metric)
    style = look.stale if subject.old else look.text
    ink = look.severity["unknown" if subject.old else "ok"]
    if column.metric == "temp" and level is not None and level > NEAR_SLOWDOWN and not subject.old:
        ink = look.severity["warning"]
    number = column.text(subject) + (" MHz" if column.name == "clock" else "")
    return (
        Segment(f"  {column.word:<7}", look.dim),
        *bar(level, _bar_cells(width), look, ink),
        Segment(f"{number:>14} ", style),
        *_plot(subject, column, _plot_cells(width), look, ink),
    )
