"""Rows of the entries of the problem list. Pure functions.

`whole`: also with all details and what to do. `cursor`: on the cursor's background.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.tui.fleet.problems.problem_item import ProblemItem
from gpuwatch.tui.toolkit.lines.item_page import hanging
from gpuwatch.tui.toolkit.lines.rows import Row, highlighted, text_of, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit


def sentence_rows(
    width: int, look: StyleSet, entry: ProblemItem, whole: bool, cursor: bool, *, dated: bool = True
) -> list[Row]:
    """Return the rows of an incident or ended job: its whole sentence; if `whole`, also what to do.

    `dated`: also its age and other details; those of a single incident are in the heading.
    """
    head = (entry.mark(look), Segment(" "))
    rows = list(hanging(head, entry.text, width, look.severity[entry.severity] + look.strong))
    if cursor:
        rows = [highlighted(line, width, look.cursor) for line in rows]
    if whole:
        rows += _remedy_rows(entry, width, look)
        if dated:
            rows += wrapped(entry.detail, width, look.dim, indent=4)
    return rows


def line_rows(
    width: int, look: StyleSet, place: int, entry: ProblemItem, whole: bool, cursor: bool
) -> list[Row]:
    """Return the rows of a condition or event: one line; if `whole`, all of its text, details and remedy.

    `place`: cells of the column with the place.
    """
    lines: Sequence[Row] = (_line(entry, place, width, look),)
    left = ""
    if whole and not text_of(lines[0]).endswith(clean(entry.detail or entry.text)):
        lines, left = (_line(replace(entry, detail=""), place, width, look),), entry.detail
        if not text_of(lines[0]).endswith(clean(entry.text)):
            lines = hanging(_head(entry, place, look), entry.text, width, look.severity[entry.severity])
    rows = [highlighted(line, width, look.cursor) for line in lines] if cursor else list(lines)
    if whole:
        rows += wrapped(left, width, look.dim, indent=4)
        rows += _remedy_rows(entry, width, look)
    return rows


def _remedy_rows(entry: ProblemItem, width: int, look: StyleSet) -> list[Row]:
    if not entry.remedy:
        return []
    return wrapped(f"{look.glyphs.slope} {entry.remedy}", width, look.text, indent=4)


def _head(entry: ProblemItem, place: int, look: StyleSet) -> Row:
    """Return the beginning of an entry's line: severity, time, and place in `place` cells."""
    return (
        entry.mark(look),
        Segment(f" {entry.clock}" if entry.clock else "", look.dim),
        Segment(f" {fit(entry.place, place)}  ", look.strong),
    )


def _line(entry: ProblemItem, place: int, width: int, look: StyleSet) -> Row:
    """Return the line of an entry: severity, time, place (`place` cells), text, and details if there is room.

    Text and details are cut to `width`.
    """
    style, head = look.severity[entry.severity], _head(entry, place, look)
    room = width - sum(part.cell_length for part in head)
    text, detail = clean(entry.text), clean(entry.detail)
    if cell_len(text) + 2 >= room or not detail:
        return (*head, Segment(fit(text, min(room, cell_len(text))), style))
    left = room - cell_len(text) - 2
    return (*head, Segment(text + "  ", style), Segment(fit(detail, min(left, cell_len(detail))), look.dim))
