"""Draws charts of sessions into a PNG or SVG file with matplotlib (an extra)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from gpuwatch.blocks.plot import Plot

INCHES_WIDE, INCHES_HIGH = 6.4, 3.2
MARKED_POINTS = 30
"""Lines with at most this many points mark each point."""


class NoMatplotlibError(Exception):
    """Raised if matplotlib is not installed."""


def plot_file(charts: Sequence[Plot], title: str, ending: str) -> bytes:
    """Return the bytes of a picture with all charts, two per row; `ending` is png or svg.

    Raises:
        NoMatplotlibError: it is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise NoMatplotlibError from error
    drawn = io.BytesIO()
    columns = min(2, len(charts))
    rows = -(-len(charts) // columns)
    settings: Any = {
        "svg.hashsalt": "gpuwatch",
        "text.parse_math": False,
        "axes.formatter.use_mathtext": False,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(INCHES_WIDE * columns, INCHES_HIGH * rows + 0.4), layout="constrained")
        figure.suptitle(title)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for chart, place in zip(charts, axes, strict=False):
            draw(chart, place)
        for place in axes[len(charts) :]:
            place.set_axis_off()
        figure.savefig(drawn, dpi=120, format=ending, metadata={"Date": None} if ending == "svg" else None)
    return drawn.getvalue()


def draw(chart: Plot, place: Any) -> None:  # noqa: ANN401 - matplotlib's axes have no types here
    """Draw a chart on matplotlib's axes `place`."""
    for one in chart.series:
        x, y = zip(*one.points, strict=True)
        marker = "o" if len(one.points) <= MARKED_POINTS else ""
        place.plot(x, y, label=one.label, linewidth=1.4, marker=marker, markersize=3)
    place.set_title(chart.title, fontsize=10)
    place.set_xlabel("step" if chart.x_label == "step" else "seconds since the start", fontsize=8)
    place.tick_params(labelsize=8)
    place.grid(visible=True, alpha=0.3)
    if len(chart.series) > 1:
        place.legend(fontsize=7)
