"""What stands in one cell of the link matrix: a number, its colour, and a sign where there is trouble."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from rich.style import Style

from gpuwatch.probe.links import Grade
from gpuwatch.tui.link_board import GRADES, NOTHING, UNREACHED, LinkBoard
from gpuwatch.tui.link_words import rate_text
from gpuwatch.tui.look import Look

Measure: TypeAlias = Literal["share", "rate", "latency"]
MEASURES: tuple[Measure, ...] = ("share", "rate", "latency")
TITLES: dict[Measure, str] = {"share": "% of peers", "rate": "GB/s", "latency": "latency us"}
Cell = tuple[str, Style]
CALM = 5
"""The ramp's step of a link that is as good as its peers: trouble stands out."""
EVEN = 0.95
"""Under this an ok link is a little darker."""
MOST_KINDS = 4096


def sign(grade: Grade, look: Look) -> str:
    """The mark of a link that is not ok."""
    glyphs = look.glyphs
    marks = {"bad": glyphs.severity["error"], "low": glyphs.down, "noisy": glyphs.noisy, "dead": glyphs.lost}
    return marks.get(grade, "")


class LinkCells:
    """Cells of one width, measure and look; what looks alike is made once."""

    def __init__(self, board: LinkBoard, measure: Measure, width: int, look: Look) -> None:
        self._board, self._measure, self._width, self._look = board, measure, width, look
        self._made: dict[tuple[int, float], Cell] = {}
        pad = max(1, width)
        self.nothing: Cell = (look.glyphs.missing.center(pad), look.track)
        """Not measured (yet)."""
        self.testing: Cell = (look.glyphs.testing.center(pad), look.brand)
        """Being measured now."""
        self.dead: Cell = (look.glyphs.lost.center(pad), look.badge["critical"])

    def row(self, places: Sequence[int], codes: Sequence[int], ratios: Sequence[float]) -> Iterator[Cell]:
        """The cells of a row, as the board tells it."""
        made, dead = self._made, len(GRADES) - 1
        for place, code, ratio in zip(places, codes, ratios, strict=True):
            if place == NOTHING:
                yield self.nothing
            elif place == UNREACHED or code == dead:
                yield self.dead
            else:
                value = ratio if self._measure == "share" else self._value(place)
                kind = (code, round(value, 2) if value == value else -1.0)  # noqa: PLR0124 - nan is not itself
                cell = made.get(kind)
                if cell is None:
                    if len(made) > MOST_KINDS:
                        made.clear()
                    cell = made[kind] = self._number(GRADES[code], value, ratio)
                yield cell

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
        text = f"{min(999, round(value * 100))}" if self._measure == "share" else rate_text(value)
        if width == 3:
            text = f"{min(99, round(ratio * 100))}" if len(text) > 2 else text
            return text.rjust(2).ljust(3), style
        if len(text) + len(mark) >= width:
            text = f"{value:.0f}" if self._measure != "share" else text
        shown = f"{text}{mark}"
        return (shown if len(shown) < width else text).rjust(width - 1)[: width - 1] + " ", style

    def _style(self, grade: Grade, ratio: float) -> Style:
        look = self._look
        if grade == "bad":
            return look.badge["critical"]
        if grade == "low":
            return look.badge["warning"]
        if grade == "noisy":
            return look.severity["warning"]
        return look.ramp[CALM if math.isnan(ratio) or ratio >= EVEN else CALM - 2]
