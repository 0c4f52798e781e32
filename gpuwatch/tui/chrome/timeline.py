"""The timeline of a replay: play or pause, speed, density of events, incidents, and the position."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from gpuwatch.number_text import plural
from gpuwatch.tui.model.replay import Replaying
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.styles import StyleSet

_DENSITY = (" ▁▂▃▄▅▆▇█", " .:-=+*#@")
"""The characters of the density scale, from none to dense: for Unicode, and for ASCII terminals."""
_SIGNS = (("▶", "‖", "■"), (">", "|", "#"))
"""The signs for playing, paused and at the end: for Unicode, and for ASCII terminals."""
MIN_COLUMNS = 10
FRESH_S = 2.0
"""While a recording grows, its density is recounted after this many recorded seconds."""


class Timeline:
    """Builds the timeline of a replay; the event counts of the last width are cached."""

    def __init__(self, replay: Replaying) -> None:
        self._replay = replay
        self._made_for: tuple[int, float] = (0, 0.0)
        self._levels: Sequence[int] = ()
        self._marks: dict[int, str] = {}

    def row(self, look: StyleSet, width: int) -> Row:
        """Return the line, `width` columns wide; on a narrow screen only sign, speed and start."""
        replay = self._replay
        first, last = replay.extent
        sign = _SIGNS[not look.glyphs.braille][
            0 if replay.playing and not replay.at_end else 1 + replay.at_end
        ]
        speed = f"{replay.speed:g}x"
        left = f" {sign} {speed:<5} {clock(first)} "
        damaged = f" {plural(replay.damaged, 'unreadable part')} " if replay.damaged else ""
        right = f" {clock(last)} {damaged}"
        columns = width - len(left) - len(right)
        if columns < MIN_COLUMNS:
            return (Segment(left[: max(0, width)], look.strong),)
        self._count(columns, first, last)
        here = column_of(replay.position, first, last, columns)
        return (Segment(left, look.strong), *self._cells(look, columns, here), Segment(right, look.dim))

    def _cells(self, look: StyleSet, columns: int, here: int) -> list[Segment]:
        steps = _DENSITY[not look.glyphs.braille]
        cells = []
        for column in range(columns):
            severity = self._marks.get(column)
            text = look.glyphs.severity.get(severity, "x") if severity else steps[self._levels[column]]
            style = look.severity.get(severity, look.dim) if severity else look.dim
            if column == here:
                text = look.glyphs.cursor if text == " " else text
                style = style + Style(reverse=True)
            elif text == " ":
                text = look.glyphs.rule if column < here else " "
            cells.append(Segment(text, style))
        return cells

    def _count(self, columns: int, first: float, last: float) -> None:
        if self._made_for[0] == columns and last - self._made_for[1] < FRESH_S:
            return
        self._made_for = columns, last
        counts = self._replay.density(columns)
        most = max([*counts, 1])
        top = len(_DENSITY[0]) - 1
        self._levels = [min(top, -(-count * top // most)) for count in counts]
        moments = self._replay.incident_moments()
        self._marks = {column_of(at, first, last, columns): severity for at, severity in moments}


def column_of(at: float, first: float, last: float, columns: int) -> int:
    """Return the column (0 to `columns` - 1) of the time `at` between `first` and `last`."""
    share = (at - first) / (last - first) if last > first else 0.0
    return min(columns - 1, max(0, int(share * columns)))


def clock(at: float) -> str:
    """Return the local time as `12:03:11`."""
    return time.strftime("%H:%M:%S", time.localtime(at))
