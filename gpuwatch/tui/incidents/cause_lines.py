"""The log lines around the cause of the shown incident, below its detail on a tall screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.tui.incidents.evidence_location import LogLocation, alert_with_line, location_of
from gpuwatch.tui.model.alert_snapshot import severity_shown, sign_shown
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import clean, fit, short_path
from gpuwatch.wire import KERNEL_LOG, LogLine

TITLE = "Lines around the cause"
SPAN = 30
"""Lines requested above the cause and below it, at most."""
AGAIN_S = 5.0
"""Seconds after which a request that failed, or had too few lines below the cause, is repeated.

The interval doubles each time.
"""


class CauseLines(RebuiltPage, can_focus=False):
    """The widget with the lines around the line that proves an incident, as they are in its file.

    They are requested from the node when the widget is first shown for an incident.
    """

    DEFAULT_CSS: ClassVar[str] = "CauseLines { overflow-y: hidden; }"

    def __init__(self) -> None:
        super().__init__(id="cause-lines")
        self.ident: str | None = None
        """Id of the shown incident; None: there is none."""
        self._location: LogLocation | None = None
        """The line around which `_stream` was requested."""
        self._stream: LogStream | None = None
        self._last: LogStream | None = None
        """The last complete answer."""
        self._next_at = 0.0
        """Monotonic time from which the request may be repeated."""
        self._interval_s = AGAIN_S

    def location(self) -> LogLocation | None:
        """Return the line that proves the shown incident; None if it has none."""
        incident = self.view_state.snapshot.incident(self.ident)
        alert = alert_with_line(incident) if incident else None
        return None if alert is None else location_of(alert)

    def on_unmount(self) -> None:
        """Cancel an unanswered request."""
        self._drop()

    def build(self, width: int) -> list[Row]:
        location = self.location()
        if location is None:
            self._drop()
            return []
        self._request(location)
        room = width - len(TITLE) - len(location.node) - 10
        file = "kernel log" if location.file == KERNEL_LOG else short_path(location.file, room)
        rows = [heading(TITLE, width, self.look, clean(f"{location.node}  {file}"))]
        if self._last is None:
            return [*rows, self._why_empty()]
        return rows + self._lines(list(self._last.lines), location, width)

    def _request(self, location: LogLocation) -> None:
        """Request the lines of another location, or again if lines below the cause may have come since."""
        session, now = self.view_state.session, self.view_state.now
        if self._location is None or _line_of(location) != _line_of(self._location):
            self._drop()
            self._location, self._next_at, self._interval_s = location, 0.0, AGAIN_S
        stream = self._stream
        if stream is not None and stream.done and stream.error is None:
            self._last = stream
        below = sum(line.offset > location.offset for line in self._last.lines) if self._last else 0
        if now < self._next_at or below >= self.size.height:
            return
        if stream is not None and not stream.done:
            session.drop(stream)
        self._next_at, self._interval_s = now + self._interval_s, 2 * self._interval_s
        self._stream = session.read_lines(
            location.node, location.file, offset=location.offset, before=SPAN, after=SPAN
        )

    def _drop(self) -> None:
        """Cancel an unanswered request, and forget the lines."""
        if self._stream is not None and not self._stream.done:
            self.view_state.session.drop(self._stream)
        self._stream = self._last = self._location = None

    def _lines(self, lines: Sequence[LogLine], location: LogLocation, width: int) -> list[Row]:
        """Return the lines that fit, with the cause a third from the top if there are enough lines."""
        room = max(1, self.size.height - 1)
        at = next((i for i, line in enumerate(lines) if line.offset >= location.offset), len(lines) - 1)
        begin = max(0, min(at - room // 3, len(lines) - room))
        rows: list[Row] = []
        for line in lines[begin : begin + room]:
            sign, style = "", self.look.dim
            if line.offset == location.offset and (incident := self.view_state.snapshot.incident(self.ident)):
                sign = self.look.glyph(sign_shown(incident))
                style = self.look.severity[severity_shown(incident)]
            rows.append((Segment(f" {sign:1} ", style), Segment(fit(line.text, width - 4), style)))
        return rows

    def _why_empty(self) -> Row:
        stream = self._stream
        return note(stream.error if stream is not None and stream.error else "reading", self.look)


def _line_of(location: LogLocation) -> tuple[str, str, int]:
    return location.node, location.file, location.offset
