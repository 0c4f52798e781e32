"""Paints a log line as segments: mark, dim prefix, and text with highlighted matches. No markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from gpuwatch.number_text import folded
from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.line_prefix import message_at, short_prefix
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit, legible
from gpuwatch.tui.toolkit.time_input import since
from gpuwatch.wire import LogLine, Severity

LOUD = ("warning", "error", "critical")
GUTTER_CELLS = 2
"""Cells of the mark before a line."""
CLOCK_CELLS = 14
"""Cells of a time with milliseconds, and of the sign that it is the arrival time."""
DATED_CLOCK_CELLS = 21
"""The same where some line is of another day and has its date: `2026-03-11 12:03:11`."""
MAX_RANKS_WIDTH = 32
"""Cells for the list of ranks with the same message."""


class Ink(Struct, frozen=True):
    """The properties with which one log line is painted."""

    look: StyleSet
    patterns: tuple[TypedPattern, ...] = ()
    """The patterns whose matches are highlighted."""
    left: int = 0
    severity: Severity | None = None
    """The severity by which the line is painted: a rule's finding takes precedence over the line's level."""
    first: bool = True
    """True for the start of a line, which may have a prefix."""
    whole: bool = False
    """True to keep the full prefix even if space is short."""
    message_only: bool = False
    """True to hide the prefix: the row has several ranks."""


def loudness(line: LogLine, found: Severity | None) -> Severity | None:
    """Return the severity of a line: its finding's, else its level if that is warning or worse, else None."""
    if found is not None:
        return found
    return line.level if line.level in LOUD else None


def mark(
    severity: Severity | None, look: StyleSet, *, bookmarked: bool, wanted: bool = False
) -> list[Segment]:
    """Return two cells: a bookmark or the severity's sign, then a bar if the line is `wanted` (jumped to)."""
    if bookmarked:
        sign = Segment("*", look.title)
    else:
        sign = Segment(" ") if severity is None else look.mark(severity)
    return [sign, Segment(look.glyphs.cursor, look.title) if wanted else Segment(" ")]


def of_ranks(row: Fold) -> bool:
    """Return True if a row contains the same message of several ranks."""
    return row.kind == "same" and len(row.ranks) > 1


def fold_badge(row: Fold, look: StyleSet) -> list[Segment]:
    """Return the segments with a folded row's number of lines, and of ranks; one number if both are equal.

    Empty for a single line.
    """
    if row.count < 2:
        return []
    ranks = len(row.ranks) if of_ranks(row) else 0
    words = f" {row.count} lines " if row.kind == "trace" else f" x{row.count} "
    out = [] if row.count == ranks else [Segment(words, look.badge["unknown"]), Segment(" ")]
    return [*out, Segment(f"{ranks} ranks: ", look.strong)] if ranks else out


def fold_tail(row: Fold, everyone: Sequence[int], cause_at: float | None, look: StyleSet) -> list[Segment]:
    """Return the parts of the text after the message of a row of several ranks; empty for other rows.

    They name the missing ranks, those that do not log the message later either, unless most are missing.
    Then, for a row after the incident's cause, they name the first and last rank with their times, else all
    ranks of the row if the list is short.

    Args:
        row: The row.
        everyone: All ranks of the view.
        cause_at: Time of the incident's cause on our clock (unix seconds); None: no incident is shown.
        look: The styles.
    """
    if not of_ranks(row):
        return []
    missing = [rank for rank in everyone if row.lacks(rank)]
    parts: list[Segment] = []
    if missing and len(missing) <= len(row.ranks):
        parts.append(Segment(f"  missing: {fit_list(missing)}", look.severity["warning"]))
    if cause_at is not None and row.at > cause_at:
        first, last = f"r{row.first_rank} {since(row.at, cause_at)}", since(row.until, cause_at)
        parts.append(Segment(f"  first {first}, last r{row.last_rank} {last}", look.dim))
    elif len(text := folded(row.ranks)) <= MAX_RANKS_WIDTH:
        parts.append(Segment(f"  {text}", look.dim))
    return parts


def fitting(parts: Iterable[Segment], room: int) -> list[Segment]:
    """Return the parts that fit into `room` cells, in their order; the others are left out."""
    out: list[Segment] = []
    for part in parts:
        if part.cell_length <= room:
            out.append(part)
            room -= part.cell_length
    return out


def fit_list(ranks: Iterable[int]) -> str:
    """Return ranks as text of limited length: `rank 17`, `ranks 3,9-11`."""
    text = folded(ranks)
    text = text if len(text) <= MAX_RANKS_WIDTH else text[: MAX_RANKS_WIDTH - 1] + "+"
    return f"rank {text}" if text.isdecimal() else f"ranks {text}"


def text_style(severity: Severity | None, look: StyleSet) -> Style:
    """Return the style of a severity: plain text below a warning and for None."""
    return look.severity[severity] if severity in LOUD else look.text


def text_segments(text: str, ink: Ink, width: int) -> list[Segment]:
    """Return the text in at most `width` cells: control characters removed, prefix dim, matches highlighted.

    If it does not fit, only the time of day of the prefix is kept, so that the message is visible, unless
    `ink.whole`. With `ink.message_only` the prefix is left out.
    """
    text = clean(text)
    begin = message_at(text) if ink.first else 0
    if ink.left:
        text = text[ink.left :] if text.isascii() else _without_head(text, ink.left)
        begin = max(0, begin - ink.left)
    elif begin and (ink.message_only or (not ink.whole and cell_len(text) > width)):
        kept = "" if ink.message_only else short_prefix(text[:begin])
        text, begin = kept + text[begin:], len(kept)
    if len(text) > width or not text.isascii():
        text = fit(text, width) if cell_len(text) > width else text
    spans = _spans(text, ink.patterns) if ink.patterns else []
    style, dim = text_style(ink.severity, ink.look), ink.look.dim
    out: list[Segment] = []
    for start, end, found in _parts(spans, min(begin, len(text)), len(text)):
        background = ink.look.badge["warning"] if found else dim if start < begin else style
        out.append(Segment(text[start:end], background))
    return out


def _parts(spans: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int, bool]]:
    """Return (start, end, True if matched) for each piece of the text up to `end`.

    A piece always ends at `begin`, where the message begins.
    """
    edges = sorted({0, begin, end, *(edge for span in spans for edge in span)})
    return [(left, right, any(a <= left < b for a, b in spans)) for left, right in pairwise(edges)]


def _without_head(text: str, cells: int) -> str:
    head = set_cell_size(text, cells)
    return text[len(head.rstrip(" ")) :] if cell_len(text) > cells else ""


def _spans(text: str, patterns: Iterable[TypedPattern]) -> list[tuple[int, int]]:
    spans = (span for pattern in patterns for span in pattern.spans(text) or ())
    found = sorted(span for span in spans if span[1] > span[0])
    out: list[tuple[int, int]] = []
    for start, end in found:
        if not out or start >= out[-1][1]:
            out.append((start, end))
    return out


def on_background(row: Sequence[Segment], width: int, background: Style) -> tuple[Segment, ...]:
    """Return the line padded to the whole width, on a background; badges keep their own."""
    used = sum(segment.cell_length for segment in row)
    padded = (*row, Segment(" " * max(0, width - used)))
    return tuple(
        Segment(s.text, background + legible(s.style, background) if s.style else background) for s in padded
    )
