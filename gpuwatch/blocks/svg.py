"""A chart as SVG for the HTML page; colours are CSS variables, so that it fits light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gpuwatch.blocks.plot import Plot, number_text, ticks

WIDTH, HEIGHT = 720, 260
LEFT_MARGIN, RIGHT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 72, 24, 10, 34
COLOURS = 8
"""Number of CSS variables (--line-0, ...); further lines are dashed."""


def svg_of(chart: Plot) -> str:
    """Return the `<svg>` element of a chart."""
    drawing = _Drawing(chart)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}" class="chart">',
        *drawing.grid(),
        *drawing.lines(),
        "</svg>",
    ]
    return "\n".join(parts)


def legend_of(chart: Plot) -> str:
    """Return an HTML list of the lines' names in their colours, with their last values.

    Empty for a single line, unless others are not drawn.
    """
    if len(chart.series) < 2 and not chart.omitted:
        return ""
    rows = []
    for number, one in enumerate(chart.series):
        last = one.points[-1][1]
        dashed = " dashed" if number // COLOURS % 2 else ""
        rows.append(
            f'<li><i class="key{dashed}" style="border-color:var(--line-{number % COLOURS})"></i>'
            f"{escape(one.label)} <b>{number_text(last)}</b></li>"
        )
    if chart.omitted:
        rows.append(f"<li>{chart.omitted} lines between these are not drawn</li>")
    return f'<ul class="legend">{"".join(rows)}</ul>'


class _Drawing:
    """Draws one chart: converts its values to coordinates."""

    def __init__(self, chart: Plot) -> None:
        self.chart = chart
        self.x_low, self.x_high = chart.x_range
        low, high = chart.y_range
        margin = (high - low) * 0.05
        self.y_low, self.y_high = (max(0.0, low - margin) if low >= 0 else low - margin), high + margin

    def x(self, value: float) -> float:
        """Return the horizontal position of a value in the drawing."""
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return LEFT_MARGIN + share * (WIDTH - LEFT_MARGIN - RIGHT_MARGIN)

    def y(self, value: float) -> float:
        """Return the vertical position of a value in the drawing, downwards."""
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - BOTTOM_MARGIN - share * (HEIGHT - TOP_MARGIN - BOTTOM_MARGIN)

    def grid(self) -> Iterator[str]:
        """Yield the SVG elements of the grid: lines and numbers of both axes, and the unit of x."""
        right, bottom = WIDTH - RIGHT_MARGIN, HEIGHT - BOTTOM_MARGIN
        for value in ticks(self.y_low, self.y_high):
            y = self.y(value)
            yield f'<line class="grid" x1="{LEFT_MARGIN}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT_MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{number_text(value)}</text>'
        for value in ticks(self.x_low, self.x_high, 6):
            x = self.x(value)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP_MARGIN}" y2="{bottom}"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number_text(value)}</text>'
        unit = "step" if self.chart.x_label == "step" else "seconds since the start"
        yield f'<text x="{right}" y="{HEIGHT - 3}" text-anchor="end">{unit}</text>'

    def lines(self) -> Iterator[str]:
        """Yield one SVG element per series: a polyline, or a circle for a single point."""
        for number, one in enumerate(self.chart.series):
            colour = f"var(--line-{number % COLOURS})"
            dashed = ' stroke-dasharray="6 4"' if number // COLOURS % 2 else ""
            title = f"<title>{escape(one.label)}</title>"
            if len(one.points) == 1:
                x, y = one.points[0]
                place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}"'
                yield f'<circle {place} r="3" fill="{colour}">{title}</circle>'
                continue
            path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in one.points)
            yield f'<polyline points="{path}" stroke="{colour}"{dashed}>{title}</polyline>'
