"""Colours and glyphs, and the function that sanitizes remote text for the screen.

The palette is distinguishable with every simulated colour-vision deficiency (smallest CIELAB distance 38),
and colour alone never carries information: a glyph or a number always goes with it.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from gpuwatch.probe.judging.text import grade_symbols
from gpuwatch.tui.model.severity import Severity

Colours: TypeAlias = Literal["many", "few", "none"]
"""The number of colours: 256 or more, the 16 of a simple terminal, or none at all (NO_COLOR)."""

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories that control a terminal, change the reading direction, or have no reliable width."""


@lru_cache(maxsize=4096)
def _without_hidden(text: str) -> str:
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _HIDDEN else c for c in text)


def clean(text: str) -> str:
    """Return the text with every character that could control the terminal replaced by U+FFFD."""
    return text if text.isascii() and text.isprintable() else _without_hidden(text)


def fit(text: str, width: int, align: Literal["<", ">"] = "<") -> str:
    """Return sanitized text in exactly `width` cells: cut with an ellipsis, or padded; "" for no width."""
    if width <= 0:
        return ""
    text = clean(text)
    length = len(text) if text.isascii() else cell_len(text)
    if length == width:
        return text
    if length < width:
        pad = " " * (width - length)
        return text + pad if align == "<" else pad + text
    return set_cell_size(text, width - 1) + ("~" if text.isascii() else "…")


def short_path(path: str, room: int, most: int = 3) -> str:
    """Return the last parts of a path, at most `most` and as many as fit `room` cells, but at least one."""
    names = PurePosixPath(clean(path)).parts
    if len(names) <= most and len(path) <= room:
        return clean(path)
    tails = (".../" * (count < len(names)) + "/".join(names[-count:]) for count in range(most, 0, -1))
    return next((tail for tail in tails if cell_len(tail) <= room), names[-1] if names else path)


class Glyphs(Struct, frozen=True):
    """The signs on the screen; one cell each, except `slope` and `degree` in ASCII."""

    severity: Mapping[str, str]
    lost: str
    stuck: str
    stale: str
    missing: str
    bar: tuple[str, str, str]
    """The full, half and empty piece of a bar."""
    rule: str
    down: str
    up: str
    braille: bool
    degree: str
    dot: str
    bullet: str
    cursor: str
    slope: str
    link: grade_symbols.Marks
    """The signs of links by grade, for those that are not ok."""
    testing: str
    right: str
    wrong: str


UNICODE = Glyphs(
    {"ok": "●", "info": "●", "warning": "▲", "error": "◆", "critical": "✖", "unknown": "?"},
    "✖", "‼", "?", "·", ("━", "╸", "─"), "─", "▼", "▲", True, "°", "·", "·", "▌", "→", grade_symbols.UNICODE,
    "»", "✓", "✗",
)  # fmt: skip
ASCII = Glyphs(
    {"ok": "o", "info": "o", "warning": "!", "error": "x", "critical": "X", "unknown": "?"},
    "X", "#", "?", ".", ("=", "=", "-"), "-", "v", "^", False, "", "|", "-", ">", "->", grade_symbols.ASCII,
    ">", "+", "X",
)  # fmt: skip


def wants_ascii(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if the screen should be plain ASCII: the locale is not UTF-8, or TERM cannot draw more."""
    if environ.get("TERM", "") in ("linux", "dumb", "vt100", "vt220"):
        return True
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    return "utf-8" not in locale.lower() and "utf8" not in locale.lower()


_RAMP = {
    True: ("#1a1f27", "#1a2738", "#1b3049", "#1b395a", "#1c426b",
           "#1d4c7d", "#1f5890", "#2463a0", "#2a6fae", "#3479ba"),
    False: ("#edf1f5", "#d9e4ef", "#c4d7e9", "#aecae3", "#96bbdc",
            "#7cabd4", "#5f99ca", "#4384ba", "#2a6da5", "#17568c"),
}  # fmt: skip
"""Ten steps of one blue, evenly spaced in lightness.

It looks the same with every kind of colour vision, and a busy healthy fleet stays calm: yellow and red are
reserved for problems. Keyed by `dark`.
"""
_RAMP_INKS = {
    True: ("#7d8794", *["#c8d6e5"] * 4, *["#f2f6fa"] * 5),
    False: ("#6b6b6b", *["#10161d"] * 6, "#ffffff", "#ffffff", "#ffffff"),
}


def _ramp(dark: bool, colours: Colours) -> tuple[Style, ...]:
    if colours == "many":
        pairs = zip(_RAMP_INKS[dark], _RAMP[dark], strict=True)
        return tuple(Style(color=ink, bgcolor=paper) for ink, paper in pairs)
    if colours == "few":
        bands = (("white", "black"), ("bright_white", "blue"), ("black", "cyan"), ("black", "white"))
        styles = [Style(color=ink, bgcolor=paper) for ink, paper in bands]
    else:
        styles = [Style(dim=True), Style(), Style(bold=True), Style(bold=True)]
    return tuple(styles[band] for band in (0, 0, 0, 1, 1, 1, 2, 2, 2, 3))


class StyleSet(Struct, frozen=True):
    """Every style and glyph that the widgets use, computed once for a theme and a terminal."""

    glyphs: Glyphs
    colours: Colours
    severity: Mapping[str, Style]
    badge: Mapping[str, Style]
    """Severity -> its style as a filled badge."""
    ramp: tuple[Style, ...]
    text: Style
    dim: Style
    strong: Style
    title: Style
    cursor: Style
    brand: Style
    pointer: Style
    """The heat map's cursor."""
    track: Style
    """The empty part of a bar."""
    stale: Style

    def glyph(self, severity: Severity) -> str:
        return self.glyphs.severity[severity]

    def heat(self, level: float | None) -> Style:
        """Return the ramp's style for a level from 0 to 1; the style of unknown values for None."""
        if level is None:
            return self.severity["unknown"]
        return self.ramp[max(0, min(9, int(level * 10)))]

    def mark(self, severity: Severity) -> Segment:
        """Return the segment with the sign of a severity in its colour."""
        return Segment(self.glyph(severity), self.severity[severity])


_DARK = {
    "ok": "#66b2ff",
    "info": "#66b2ff",
    "warning": "#fff699",
    "error": "#ff2a00",
    "critical": "#ff2a00",
    "unknown": "#8a8a8a",
}
_LIGHT = {
    "ok": "#0059b3",
    "info": "#0059b3",
    "warning": "#7a5c00",
    "error": "#c72100",
    "critical": "#c72100",
    "unknown": "#6b6b6b",
}
_SIXTEEN = {"ok": "bright_cyan", "info": "bright_cyan", "warning": "bright_yellow", "error": "bright_red",
            "critical": "bright_red", "unknown": "white"}  # fmt: skip


def _severities(dark: bool, colours: Colours) -> dict[str, Style]:
    inks = (_DARK if dark else _LIGHT) if colours == "many" else _SIXTEEN
    if colours == "none":
        plain = dict.fromkeys(inks, Style())
        loud = dict.fromkeys(("warning", "error", "critical"), Style(bold=True))
        return plain | loud | {"unknown": Style(dim=True)}
    return {name: Style(color=ink, bold=name == "critical") for name, ink in inks.items()}


def _badges(dark: bool, colours: Colours) -> dict[str, Style]:
    if colours == "none":
        return dict.fromkeys(_DARK, Style(reverse=True))
    inks = (_DARK if dark else _LIGHT) if colours == "many" else _SIXTEEN
    ink = "black" if colours == "few" else "#000000" if dark else "#ffffff"
    return {name: Style(color=ink, bgcolor=paper, bold=True) for name, paper in inks.items()}


def _cursor(colours: Colours, *, dark: bool) -> Style:
    """Return the cursor's style; with 16 colours any may be the terminal's background, so it is also bold."""
    if colours == "many":
        return Style(bgcolor=_CURSOR_GROUNDS[dark])
    return Style(bgcolor="blue", bold=True) if colours == "few" else Style(reverse=True)


_CURSOR_GROUNDS = {True: "#26405c", False: "#cfe3f8"}
"""The cursor's background with 256 colours or more, keyed by `dark`."""
_CURSOR_INKS = {
    "#26405c": {
        "#ff2a00": "#ffb09f",
        "#66b2ff": "#a9d4ff",
        "#8a8a8a": "#c6ced6",
        "#8b949e": "#c6ced6",
        "#343b45": "#7d8a98",
    },
    "#cfe3f8": {"#6b6b6b": "#4a4a4a", "#5f6368": "#44484c", "#7a5c00": "#5e4600", "#c9ced6": "#7d8a98"},
    "blue": {"bright_red": "bright_white", "bright_cyan": "bright_white", "bright_black": "white"},
}
"""Background of the cursor -> colour of a text -> the colour that replaces it to be legible there."""


@lru_cache(maxsize=512)
def legible(ink: Style, ground: Style) -> Style:
    """Return `ink` with the colour that is legible on the background of `ground`; badges keep their own."""
    if ink.color is None or ink.bgcolor is not None or ground.bgcolor is None:
        return ink
    other = _CURSOR_INKS.get(ground.bgcolor.name, {}).get(ink.color.name)
    return ink if other is None else ink + Style(color=other)


def _pointer(colours: Colours, ink: str, paper: str) -> Style:
    if colours == "none":
        return Style(reverse=True, bold=True, underline=True)
    return Style(color=ink, bgcolor=paper, bold=True, underline=colours == "few")


def build_styles(*, dark: bool = True, colours: Colours = "many", ascii_only: bool = False) -> StyleSet:
    """Return the styles and glyphs for a theme and a terminal."""
    grey = {"many": "#8b949e" if dark else "#5f6368", "few": "white", "none": None}[colours]
    faint = {"many": "#343b45" if dark else "#c9ced6", "few": "bright_black", "none": None}[colours]
    accent = {"many": "#66b2ff" if dark else "#0059b3", "few": "bright_cyan", "none": None}[colours]
    black, white = ("black", "bright_white") if colours == "few" else ("#000000", "#ffffff")
    return StyleSet(
        glyphs=ASCII if ascii_only else UNICODE,
        colours=colours,
        severity=_severities(dark, colours),
        badge=_badges(dark, colours),
        ramp=_ramp(dark, colours),
        text=Style(),
        dim=Style(color=grey),
        strong=Style(bold=True),
        title=Style(color=accent, bold=True),
        cursor=_cursor(colours, dark=dark),
        brand=Style(color=black if dark else white, bgcolor=accent, bold=True)
        if accent
        else Style(reverse=True),
        pointer=_pointer(colours, ink=black if dark else white, paper=white if dark else black),
        track=Style(color=faint),
        stale=Style(color=grey, dim=colours == "none", italic=colours != "few"),
    )
