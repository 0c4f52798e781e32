"""Draws numbers as bars, sparklines and plots of several lines, in braille or ASCII."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.segment import Segment
from rich.style import Style

from gpuwatch.tui.toolkit.styles import Glyphs, StyleSet

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_BRAILLE = tuple(
    tuple(chr(0x2800 + left + right) if left or right else " " for right in _RIGHT) for left in _LEFT
)
"""The braille characters by the number of filled dots (0 to 4) in the left and in the right column."""
_ASCII_STEPS = " .:-=+*#%@"
_ASCII_LINE = ".-'"


def bar(
    level: float | None, width: int, look: StyleSet, style: Style, mark: float | None = None
) -> list[Segment]:
    """Return a bar of `width` cells filled to `level` (0 to 1).

    A limit mark is drawn at `mark` (0 to 1) if that is beyond the filled part. An unknown level (None) is a
    row of dots.
    """
    full, half, empty = look.glyphs.bar
    if level is None:
        return [Segment(look.glyphs.missing * width, look.track)]
    halves = round(min(1.0, max(0.0, level)) * width * 2)
    filled = full * (halves // 2) + (half if halves % 2 and look.glyphs.braille else "")
    rest = empty * (width - len(filled))
    if mark is not None and (at := min(width - 1, int(mark * width)) - len(filled)) >= 0:
        tick = "┤" if look.glyphs.braille else "|"
        return [Segment(filled, style), Segment(rest[:at], look.track), Segment(tick, look.dim),
                Segment(rest[at + 1 :], look.track)]  # fmt: skip
    return [Segment(filled, style), Segment(rest, look.track)]


def upright(glyphs: Glyphs) -> str:
    """Return the character for a vertical line: `│`, or `|` in ASCII."""
    return "│" if glyphs.braille else "|"


def marked(line: str, marks: Mapping[int, Style], look: StyleSet, style: Style) -> list[Segment]:
    """Return a line of a plot in `style`, with an upright line at each column of `marks`."""
    parts: list[Segment] = []
    start = 0
    for column in sorted(each for each in marks if each < len(line)):
        parts += [Segment(line[start:column], style), Segment(upright(look.glyphs), marks[column])]
        start = column + 1
    return [*parts, Segment(line[start:], style)]


def resample(values: Sequence[float | None], count: int) -> list[float | None]:
    """Return the last `count` values; if there are fewer, with None before them."""
    newest = list(values[-count:])
    return [None] * (count - len(newest)) + newest


def _heights(values: Sequence[float | None], low: float, high: float, steps: int) -> list[int]:
    share = (steps - 1) / ((high - low) or 1.0)
    found = []
    for value in values:
        if value is None:
            found.append(0)
            continue
        height = 1 + int((value - low) * share + 0.5)
        found.append(1 if height < 1 else min(height, steps))
    return found


def sparkline(values: Sequence[float | None], low: float, high: float, width: int, glyphs: Glyphs) -> str:
    """Return a plot of one line, `width` cells: two values per cell in braille, one in ASCII.

    Unknown values are blank, known ones never are.
    """
    return plot(values, low, high, width, 1, glyphs)[0]


def plot(
    values: Sequence[float | None], low: float, high: float, width: int, height: int, glyphs: Glyphs
) -> list[str]:
    """Return a plot as `height` lines of `width` cells, the top line first, filled from below.

    `low` and `high` are the values at the bottom and top; None is blank.
    """
    if not glyphs.braille:
        return _ascii_plot(values, low, high, width, height)
    heights = _heights(resample(values, width * 2), low, high, height * 4)
    lines = []
    for row in range(height - 1, -1, -1):
        base = row * 4
        part = [0 if h <= base else 4 if h >= base + 4 else h - base for h in heights]
        lines.append("".join([_BRAILLE[a][b] for a, b in zip(part[::2], part[1::2], strict=True)]))
    return lines


def _ascii_plot(
    values: Sequence[float | None], low: float, high: float, width: int, height: int
) -> list[str]:
    steps = len(_ASCII_STEPS) - 1
    heights = _heights(resample(values, width), low, high, height * steps)
    return [
        "".join(_ASCII_STEPS[min(steps, max(0, h - row * steps))] for h in heights)
        for row in range(height - 1, -1, -1)
    ]


def curve(
    values: Sequence[float | None], low: float, high: float, width: int, height: int, glyphs: Glyphs
) -> list[str]:
    """Return a plot like `plot`, but as a line instead of filled columns: constant values are a flat line.

    Neighbours are joined, unknown values leave a gap.
    """
    dots, across = (4, 2) if glyphs.braille else (len(_ASCII_LINE), 1)
    spans: list[tuple[int, int]] = []
    before = 0
    for top in _heights(resample(values, width * across), low, high, height * dots):
        foot = top if not before or not top else min(top, before + 1)
        head = top if not before or not top else max(top, before - 1)
        spans.append((foot, head))
        before = top
    draw = _braille_line if glyphs.braille else _ascii_line
    return [draw(spans, row * dots) for row in range(height - 1, -1, -1)]


def _braille_line(spans: Sequence[tuple[int, int]], base: int) -> str:
    """Return one line of braille cells: dots at and above `base` within the span of each column."""
    bits = [
        (max(0, min(4, foot - 1 - base)), max(0, min(4, head - base))) if head else (0, 0)
        for foot, head in spans
    ]
    codes = [
        (_LEFT[a[1]] ^ _LEFT[a[0]]) | (_RIGHT[b[1]] ^ _RIGHT[b[0]])
        for a, b in zip(bits[::2], bits[1::2], strict=True)
    ]
    return "".join([chr(0x2800 + code) if code else " " for code in codes])


def _ascii_line(spans: Sequence[tuple[int, int]], base: int) -> str:
    """Return one line like `_braille_line`, with one ASCII character per column; `|` for steep parts."""
    line = []
    for foot, head in spans:
        low, high = max(foot, base + 1), min(head, base + len(_ASCII_LINE))
        line.append(" " if not head or low > high else _ASCII_LINE[high - base - 1] if low == high else "|")
    return "".join(line)
