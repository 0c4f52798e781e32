"""Helpers for painted lines: joined, wrapped and highlighted segments, headings and notes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TypeAlias

from rich.segment import Segment
from rich.style import Style

from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit, legible

Row: TypeAlias = "tuple[Segment, ...]"
"""One painted line."""
Cell: TypeAlias = "tuple[str, Style]"
"""A piece of a line before painting."""
PARTING = "./_-,:="
"""Characters after which a word that is longer than a line is split: in paths, modules, options."""


def text_of(row: Sequence[Segment]) -> str:
    """Return the plain text of a line, without spaces at its end."""
    return "".join(segment.text for segment in row).rstrip()


def joined(cells: Sequence[Cell]) -> list[Segment]:
    """Return the cells as segments, neighbours of one style merged: fewer segments are painted faster."""
    out: list[Segment] = []
    text, last = "", None
    for piece, style in cells:
        if style is not last and text:
            out.append(Segment(text, last))
            text = ""
        text, last = text + piece, style
    return [*out, Segment(text, last)] if text else out


def highlighted(row: Row, width: int, style: Style) -> Row:
    """Return the line padded to the whole width, with this style over its own."""
    used = sum(segment.cell_length for segment in row)
    padded = (*row, Segment(" " * max(0, width - used)))
    return tuple(Segment(s.text, (legible(s.style, style) + style) if s.style else style) for s in padded)


def wrapped(text: str, width: int, style: Style, *, indent: int = 1) -> list[Row]:
    """Return the text in as many lines as needed, without control characters; empty for an empty text."""
    pad, room = " " * indent, max(8, width - indent - 1)
    lines = textwrap.wrap(_breakable(clean(text), room), room, break_on_hyphens=False)
    return [(Segment(pad + line, style),) for line in lines]


def _breakable(text: str, room: int) -> str:
    """Return the text with words longer than `room` split, after punctuation where possible."""
    if len(text) <= room:
        return text
    return " ".join(_parted(word, room) if len(word) > room else word for word in text.split(" "))


def _parted(word: str, room: int) -> str:
    """Return a long word with spaces between its parts of at most `room` characters."""
    parts = []
    while len(word) > room:
        cut = max(word.rfind(sign, room // 2, room) for sign in PARTING) + 1 or room
        parts.append(word[:cut])
        word = word[cut:]
    return " ".join([*parts, word])


def heading(text: str, width: int, look: StyleSet, note: str = "") -> Row:
    """Return a section's title followed by a rule, with `note` at its right end."""
    title = f" {text} "
    tail = f" {note} " if note else ""
    rule = look.glyphs.rule * max(0, width - len(title) - len(tail) - 2)
    return (
        Segment(look.glyphs.rule, look.track),
        Segment(title, look.title),
        Segment(rule, look.track),
        Segment(fit(tail, min(len(tail), max(0, width - len(title) - 2))), look.dim),
        Segment(look.glyphs.rule, look.track),
    )


def note(text: str, look: StyleSet) -> Row:
    """Return a dim line with an explanation."""
    return (Segment(f" {clean(text)}", look.dim),)
