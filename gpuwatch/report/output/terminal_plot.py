"""Draws charts with characters: braille dots if the terminal supports them, else asterisks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gpuwatch.blocks.plot import Plot, PlotSeries, number_text

COLOURS = ("#66b2ff", "#fff699", "#ff9b52", "#f0a3cf", "#3fd0a4", "#bfa3ff")
BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the four rows and two columns of a braille cell."""
MIN_WIDTH, MAX_WIDTH, ROWS = 20, 110, 10
MAX_SERIES = len(COLOURS)


def plot_lines(chart: Plot, width: int, *, has_unicode: bool, has_colour: bool) -> Iterator[Text]:
    """Yield a chart of the first `MAX_SERIES` lines in `width` columns; without colours, a plot per line."""
    groups = [chart.series] if has_colour else [(one,) for one in chart.series]
    for group in groups:
        drawn = group[:MAX_SERIES]
        alone = len(drawn) == 1
        yield Text(chart.title + (f": {drawn[0].label}" if alone else ""), style="bold")
        yield from _plot(chart, drawn, width, has_unicode=has_unicode)
        if not alone:
            yield _legend(chart, group, drawn)


def _plot(chart: Plot, drawn: Sequence[PlotSeries], width: int, *, has_unicode: bool) -> Iterator[Text]:
    low, high = chart.y_range
    labels = {0: number_text(high), ROWS // 2: number_text((low + high) / 2), ROWS - 1: number_text(low)}
    margin = max(map(len, labels.values()))
    columns = max(MIN_WIDTH, min(MAX_WIDTH, width - margin - 2))
    canvas = _Canvas(columns, ROWS, 4 if has_unicode else 1, 2 if has_unicode else 1)
    for number, one in enumerate(drawn):
        canvas.draw(one, chart.x_range, (low, high), number)
    for row in range(ROWS):
        line = Text(f"{labels.get(row, ''):>{margin}} {'│' if has_unicode else '|'}")
        for cell in canvas.row(row):
            line.append(*cell)
        line.rstrip()
        yield line
    first, last = chart.x_range
    unit = "step" if chart.x_label == "step" else "s"
    left = f"{' ' * (margin + 2)}{number_text(first)}"
    right = f"{number_text(last)} {unit}"
    yield Text(left + right.rjust(max(1, columns + margin + 2 - len(left))), style="dim")


def _legend(chart: Plot, group: Sequence[PlotSeries], drawn: Sequence[PlotSeries]) -> Text:
    line = Text("  ")
    for number, one in enumerate(drawn):
        line.append("― ", COLOURS[number])
        line.append(f"{one.label} {number_text(one.points[-1][1])}   ")
    more = len(group) - len(drawn) + chart.omitted
    if more:
        line.append(f"{more} more lines", "dim")
    return line


class _Canvas:
    """A grid of character cells with dots; a cell has the colour of the last line through it."""

    def __init__(self, columns: int, rows: int, high: int, wide: int) -> None:
        self._columns, self._rows, self._high, self._wide = columns, rows, high, wide
        self._bits: dict[tuple[int, int], int] = {}
        self._lines: dict[tuple[int, int], int] = {}

    def draw(
        self, one: PlotSeries, across: tuple[float, float], up: tuple[float, float], number: int
    ) -> None:
        """Draw a line through its points, scaled from the ranges `across` (x) and `up` (y)."""
        width, height = self._columns * self._wide - 1, self._rows * self._high - 1
        places = [
            (
                round((x - across[0]) / (across[1] - across[0]) * width),
                round((up[1] - y) / (up[1] - up[0]) * height),
            )
            for x, y in one.points
        ]
        for (x0, y0), (x1, y1) in zip(places, places[1:] or places, strict=False):
            length = max(abs(x1 - x0), abs(y1 - y0), 1)
            for at in range(length + 1):
                self._dot(round(x0 + (x1 - x0) * at / length), round(y0 + (y1 - y0) * at / length), number)

    def _dot(self, x: int, y: int, number: int) -> None:
        cell = (y // self._high, x // self._wide)
        self._bits[cell] = self._bits.get(cell, 0) | DOTS[y % self._high][x % self._wide]
        self._lines[cell] = number

    def row(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield (character, colour) for each column of a row."""
        for column in range(self._columns):
            bits = self._bits.get((row, column), 0)
            colour = COLOURS[self._lines.get((row, column), 0)]
            yield (" " if not bits else chr(BRAILLE + bits) if self._high > 1 else "*"), colour
