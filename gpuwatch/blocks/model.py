"""The blocks of a report: their text and what it means, without colours, widths or markup.

Pure functions make them from facts; `gpuwatch.report` prints them, `gpuwatch.tui` paints them, and the other
modules of this folder write them as text, Markdown and HTML.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

Style: TypeAlias = Literal["plain", "ok", "info", "warning", "error", "critical", "muted", "strong"]
"""The meaning of a text: a severity, `muted` for what matters less, `strong` for what matters most."""
STYLES: tuple[Style, ...] = get_args(Style)


def known_style(name: str) -> Style:
    """Return a severity from outside as a style; `plain` if there is no such severity."""
    return next((style for style in STYLES if style == name), "plain")


class Line(Struct, frozen=True):
    """A line of text."""

    text: str
    style: Style = "plain"
    hang: int = 0
    """Columns by which a terminal indents continuation lines."""
