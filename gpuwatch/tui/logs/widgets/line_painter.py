"""A log line as segments: its mark, its text with what was searched for in it. Nothing is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.sources import folded
from gpuwatch.tui.toolkit.styles import Look, clean, fit
from gpuwatch.wire import LogLine, Severity

LOUD = ("warning", "error", "critical")
GUTTER = 2
"""Cells of the mark before a line."""
CLOCK = 14
"""Cells of a time with milliseconds, and of the sign that it is the arrival's."""
MOST_RANKS = 32
"""Cells for the list of ranks that say the same."""


@dataclass(frozen=True)
class Ink:
    """How one line is to be painted."""

    look: Look
    patterns: tuple[re.Pattern[str], ...] = ()
    """What was searched for."""
    left: int = 0
    severity: Severity | None = None
    """What the line is painted as: what a rule says of it goes before the line's own words."""


def loudness(line: LogLine, found: Severity | None) -> Severity | None:
    """How bad a line is: by the rule that matched it, else by its own level; None: nothing to tell."""
    if found is not None:
        return found
    return line.level if line.level in LOUD else None


def mark(severity: Severity | None, look: Look, *, bookmarked: bool, wanted: bool = False) -> list[Segment]:
    """Two cells: a bookmark, else how bad the line is; then a bar where it is the line that was gone to."""
    if bookmarked:
        sign = Segment("*", look.title)
    else:
        sign = Segment(" ") if severity is None else look.mark(severity)
    return [sign, Segment(look.glyphs.cursor, look.title) if wanted else Segment(" ")]


def fold_badge(row: Fold, everyone: Sequence[int], look: Look) -> list[Segment]:
    """What a folded row holds: how many lines, from which ranks, and who is missing."""
    if row.count < 2:
        return []
    words = f" {row.count} lines " if row.kind == "trace" else f" x{row.count} "
    out = [Segment(words, look.badge["unknown"]), Segment(" ")]
    if row.kind != "same" or len(row.ranks) < 2:
        return out
    missing = [rank for rank in everyone if rank not in row.ranks]
    text = folded(row.ranks)
    out.append(Segment(f"{len(row.ranks)} ranks", look.strong))
    if len(text) <= MOST_RANKS:
        out.append(Segment(f" {text}", look.dim))
    if missing and len(missing) <= len(row.ranks):
        out.append(Segment(f" missing: {fit_list(missing)} ", look.severity["warning"]))
    out.append(Segment("  "))
    return out


def fit_list(ranks: Iterable[int]) -> str:
    """A few ranks in words: `rank 17`, `ranks 3,9-11`."""
    text = folded(ranks)
    text = text if len(text) <= MOST_RANKS else text[: MOST_RANKS - 1] + "+"
    return f"rank {text}" if text.isdigit() else f"ranks {text}"


def text_style(severity: Severity | None, look: Look) -> Style:
    """Warnings and worse in their colour; the rest as it is."""
    return look.severity[severity] if severity in LOUD else look.text


def text_segments(text: str, ink: Ink, width: int) -> list[Segment]:
    """Cleaned text in at most `width` cells, with what was searched for on a badge's ground."""
    text = clean(text)
    if ink.left:
        text = text[ink.left :] if text.isascii() else _without_head(text, ink.left)
    if len(text) > width or not text.isascii():
        text = fit(text, width) if cell_len(text) > width else text
    style = text_style(ink.severity, ink.look)
    spans = _spans(text, ink.patterns) if ink.patterns else []
    if not spans:
        return [Segment(text, style)]
    out, at = [], 0
    for start, end in spans:
        if start > at:
            out.append(Segment(text[at:start], style))
        out.append(Segment(text[start:end], ink.look.badge["warning"]))
        at = end
    out.append(Segment(text[at:], style))
    return out


def _without_head(text: str, cells: int) -> str:
    head = set_cell_size(text, cells)
    return text[len(head.rstrip(" ")) :] if cell_len(text) > cells else ""


def _spans(text: str, patterns: Iterable[re.Pattern[str]]) -> list[tuple[int, int]]:
    found = sorted(m.span() for pattern in patterns for m in pattern.finditer(text) if m.end() > m.start())
    out: list[tuple[int, int]] = []
    for start, end in found:
        if not out or start >= out[-1][1]:
            out.append((start, end))
    return out


def on_ground(row: Sequence[Segment], width: int, ground: Style) -> tuple[Segment, ...]:
    """The line over the whole width on a ground, on which badges keep their own."""
    used = sum(segment.cell_length for segment in row)
    padded = (*row, Segment(" " * max(0, width - used)))
    return tuple(Segment(s.text, ground + s.style if s.style else ground) for s in padded)
