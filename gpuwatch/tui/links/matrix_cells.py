"""Paints one cell of the link matrix: a number, its colour, and a sign for a problem."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from rich.style import Style

from gpuwatch.number_text import rate_text
from gpuwatch.probe.judging.links.links import Grade
from gpuwatch.tui.links.matrix_model import NOT_MEASURED, UNREACHED, LinkBoard, View, kind_of
from gpuwatch.tui.toolkit.lines.rows import Cell
from gpuwatch.tui.toolkit.styles import StyleSet

Measure: TypeAlias = Literal["share", "rate", "latency"]
MEASURES: tuple[Measure, ...] = ("share", "rate", "latency")
TITLES: dict[Measure, str] = {"share": "% of peers", "rate": "GB/s", "latency": "latency us"}
CALM_STEP = 5
"""The colour step of a normal link, so that problems stand out."""
EVEN_RATIO = 0.95
"""Below this ratio an ok link is slightly darker."""
MIN_MARKED_WIDTH = 3
"""Cells wider than this have room for a sign beside the number."""


def sign(grade: Grade, look: StyleSet) -> str:
    """Return the sign of a link's grade; "" for ok."""
    return look.glyphs.link.get(grade, "")


def number_width(cell: int) -> int:
    """Return the columns for the number in a cell of `cell` columns: the rest is for a sign and a gap."""
    return max(1, cell - 2) if cell > MIN_MARKED_WIDTH else max(1, cell - 1)


def short_value(value: float, room: int, most: int) -> str:
    """Return a rate or latency in at most `room` columns, else in at most `most`, else `++`.

    Never used for ratios.
    """
    for columns in (room, most):
        thousands = [f"{value / 1000:.0f}k"] if value >= 999.5 else []
        for text in (rate_text(value), f"{value:.0f}", *thousands):
            if len(text) <= columns:
                return text
    return "++"


class LinkCells:
    """Paints the cells of one width, measure and style; equal cells are made once and cached."""

    def __init__(self, board: LinkBoard, measure: Measure, width: int, look: StyleSet) -> None:
        self._board, self._measure, self._width, self._look = board, measure, width, look
        self._made: dict[int, Cell] = {}
        pad = max(1, width)
        self.nothing: Cell = (look.glyphs.missing.center(pad), look.track)
        """Not measured (yet)."""
        self.testing: Cell = (look.glyphs.testing.center(pad), look.brand)
        """Being measured now."""
        self.dead: Cell = (sign("dead", look).center(pad), look.badge["critical"])

    def row(self, view: View, number: int, columns: slice) -> list[Cell]:
        """Return the cells of row `number` in these columns."""
        kinds = self._board.kinds(view, number, columns)
        if self._measure == "share":
            made = self._made
            return [made.get(kind) or self._make(kind) for kind in kinds]
        places = self._board.places(view, number, columns)
        return [self._valued(kind, place) for kind, place in zip(kinds, places, strict=True)]

    def _make(self, kind: int) -> Cell:
        if kind == NOT_MEASURED:
            cell = self.nothing
        elif kind == UNREACHED or kind_of(kind)[0] == "dead":
            cell = self.dead
        else:
            grade, ratio = kind_of(kind)
            cell = self._number(grade, ratio, ratio)
        self._made[kind] = cell
        return cell

    def _valued(self, kind: int, place: int) -> Cell:
        """Return a cell with the rate or latency ("-" if unknown), or the sign of a link without any."""
        if place < 0 or kind_of(kind)[0] == "dead":
            return self._made.get(kind) or self._make(kind)
        grade, ratio = kind_of(kind)
        return self._number(grade, self._value(place), ratio)

    def _value(self, place: int) -> float:
        pair = self._board.pairs[place]
        value = pair.bandwidth_gb_per_s if self._measure == "rate" else pair.latency_us
        return math.nan if value is None else value

    def _number(self, grade: Grade, value: float, ratio: float) -> Cell:
        width, look = self._width, self._look
        style = self._style(grade, ratio)
        if math.isnan(value):
            return "-".center(width), look.dim
        mark = sign(grade, look)
        if width == 1:
            return mark or str(max(0, min(9, int(ratio * 10)))), style
        if width == 2:
            return f"{min(99, round(ratio * 100)):>2}", style
        room = number_width(width)
        if self._measure == "share":
            text = f"{min(999 if width > MIN_MARKED_WIDTH else 99, round(value * 100))}"
        else:
            text = short_value(value, room, width - 1)
        return f"{text:>{room}}{mark if len(text) <= room and width > MIN_MARKED_WIDTH else ''}".ljust(
            width
        ), style

    def _style(self, grade: Grade, ratio: float) -> Style:
        look = self._look
        if grade == "bad":
            return look.badge["critical"]
        if grade == "low":
            return look.badge["warning"]
        if grade == "noisy":
            return look.severity["warning"]
        return look.ramp[CALM_STEP if math.isnan(ratio) or ratio >= EVEN_RATIO else CALM_STEP - 2]
