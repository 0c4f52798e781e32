"""gpuwatch's two themes, and the filters behind NO_COLOR and `--ascii`.

Textual's own themes stay available in the palette.
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

THEMES = (
    Theme(
        name="gpuwatch",
        dark=True,
        primary="#66b2ff",
        secondary="#8ab4d8",
        accent="#66b2ff",
        warning="#fff699",
        error="#ff2a00",
        success="#66b2ff",
        foreground="#d7dce2",
        background="#0f1216",
        surface="#171b21",
        panel="#1e242c",
        variables={
            "footer-key-foreground": "#66b2ff",
            "footer-background": "#171b21",
            "block-cursor-background": "#26405c",
            "block-cursor-foreground": "#ffffff",
            "scrollbar": "#343b45",
            "scrollbar-background": "#0f1216",
            "scrollbar-hover": "#66b2ff",
            "scrollbar-active": "#66b2ff",
        },
    ),
    Theme(
        name="gpuwatch-light",
        dark=False,
        primary="#0059b3",
        secondary="#3a6ea5",
        accent="#0059b3",
        warning="#7a5c00",
        error="#c72100",
        success="#0059b3",
        foreground="#1c2128",
        background="#fbfbfa",
        surface="#f0f1f3",
        panel="#e6e8eb",
        variables={
            "footer-key-foreground": "#0059b3",
            "footer-background": "#f0f1f3",
            "block-cursor-background": "#cfe3f8",
            "block-cursor-foreground": "#000000",
            "scrollbar": "#c4c9d0",
            "scrollbar-background": "#fbfbfa",
            "scrollbar-hover": "#0059b3",
            "scrollbar-active": "#0059b3",
        },
    ),
)
THEME_NAMES = sorted({*(own.name for own in THEMES), *BUILTIN_THEMES})


@lru_cache(maxsize=1024)
def _without_colour(style: Style) -> Style:
    return style.without_color if style.color or style.bgcolor else style


class Colourless(LineFilter):
    """A line filter that removes every colour and keeps bold, dim, underline and reverse."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - textual's signature
        """Return the segments of a line without colours."""
        return [
            Segment(text, _without_colour(style) if style else style, control)
            for text, style, control in segments
        ]


_IN_ASCII = str.maketrans(
    {
        "▐": "[", "▌": "]", "…": "~", "─": "-", "━": "=", "│": "|", "┃": "|", "▶": ">", "▼": "v", "▲": "^",
        "●": "o", "•": "*", "·": ".", "→": ">", "°": " ", **dict.fromkeys("▁▂▃▄▅▆▇█▉▊▋▍▎▏▔▕", " "),
    }
)  # fmt: skip
"""ASCII substitutes for the signs in Textual's own parts; the pieces of a bar differ by background."""


@lru_cache(maxsize=4096)
def _in_ascii(text: str) -> str:
    """Return the text with the same width in ASCII; `?` for a character without a substitute."""
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in text.translate(_IN_ASCII))


class AsciiOnly(LineFilter):
    """A line filter for terminals that draw only ASCII; Textual's parts and remote text pass it, too."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - textual's signature
        """Return the segments of a line in ASCII, each as wide as before."""
        return [
            segment
            if segment.text.isascii()
            else Segment(_in_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def line_filters(*, no_color: bool, ascii_only: bool) -> list[LineFilter]:
    """Return the filters for painted lines: without colours, in ASCII only, both or none."""
    return [*([Colourless()] if no_color else []), *([AsciiOnly()] if ascii_only else [])]
