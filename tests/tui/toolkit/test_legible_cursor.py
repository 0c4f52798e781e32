"""What stands under the cursor can be read: the contrast of every colour there, with 16, 256 or more."""

from __future__ import annotations

import pytest
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpuwatch.tui.logs.widgets.line_painter import on_background
from gpuwatch.tui.toolkit.lines.rows import highlighted
from gpuwatch.tui.toolkit.styles import Colours, StyleSet, build_styles

MIN_CONTRAST = 3.5
"""WCAG 2.1 asks for 3 for bold or large text and 4.5 for other."""


def luminance(color: Color) -> float:
    """Return the relative luminance of WCAG 2.1."""
    parts = [part / 255 for part in color.get_truecolor()]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(style: Style, system: ColorSystem) -> float:
    assert style.color is not None
    assert style.bgcolor is not None
    ink, paper = (luminance(color.downgrade(system)) + 0.05 for color in (style.color, style.bgcolor))
    return max(ink, paper) / min(ink, paper)


def inks(look: StyleSet) -> list[Style]:
    return [*look.severity.values(), look.dim, look.title, look.stale]


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize(
    ("colours", "system"),
    [("many", ColorSystem.TRUECOLOR), ("many", ColorSystem.EIGHT_BIT), ("few", ColorSystem.STANDARD)],
)
def test_every_colour_is_legible_under_the_cursor(dark: bool, colours: Colours, system: ColorSystem) -> None:
    look = build_styles(dark=dark, colours=colours)
    row = tuple(Segment("x", ink) for ink in inks(look))
    for painted in (highlighted(row, len(row), look.cursor), on_background(row, len(row), look.cursor)):
        found = {
            str(each.style): contrast(each.style, system)
            for each in painted
            if each.style and each.style.color
        }
        assert {name: ratio for name, ratio in found.items() if ratio < MIN_CONTRAST} == {}


def test_a_badge_keeps_its_colours() -> None:
    look = build_styles()
    badge = Segment("x", look.badge["critical"])
    assert on_background((badge,), 1, look.cursor)[0].style == look.cursor + look.badge["critical"]
