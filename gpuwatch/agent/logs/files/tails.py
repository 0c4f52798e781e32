"""Sends a file's lines as they arrive, for a screen that shows them."""

from ..ipc.outbox import BRIM_BYTES, lines_frames
from ..lines.rows import row
from ..lines.splitter import Splitter, is_bar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..ipc.outbox import Outbox

QUIET_S = 0.5
"""Seconds of silence after which an unfinished line is sent; a running bar is sent this often."""


class FollowedTail(object):
    """Sends the lines appended to a file. A row with the offset of the previous one replaces it.

    The line has grown in this case.
    """

    def __init__(self, number: int, file: str, outbox: "Outbox", until: "float | None" = None) -> None:
        """Create a tail for request `number`.

        `until`: unix seconds, the latest time of existing lines whose time has no year; None: now.
        """
        self.number = number
        self._until = until
        self._file = file
        self._outbox = outbox
        self._splitter = Splitter()
        self._dropped = 0
        self._fed_at = 0.0
        self._reported: tuple[int, int, str] | None = None
        self._bar: int | None = None
        """Offset under which the running bar was first sent."""

    def begin(self, data: bytes, offset: int, count: int, size: int, seam: "str | None" = None) -> None:
        """Send the last `count` lines of `data`; `seam`: a change of the file before them."""
        rows = self._splitter.feed(data, offset)
        tail = self._splitter.tail()
        if tail is not None:
            rows.append(tail)
            self._note_reported(tail)
        last = [row(*one, arrived=None, until=self._until) for one in rows[-count:]] if count else []
        self.send(last, size=size, seam=seam)

    def feed(self, data: bytes, offset: int, arrived: float, now: float) -> None:
        """Send the complete lines of consecutive bytes; `arrived`: unix seconds, `now`: monotonic."""
        rows = self._splitter.feed(data, offset)
        self._fed_at = now
        if rows:
            self.send([row(self._placed(one), one[1], one[2], arrived) for one in rows])
            self._reported = None

    def seam(self, what: str) -> None:
        """Send that the file was truncated or replaced: the next lines are from another file."""
        self._splitter.forget()
        self._reported = self._bar = None
        self.send([], seam=what)

    def quiet(self, now: float, arrived: float) -> None:
        """Send the unfinished line once it has not grown for `QUIET_S`."""
        tail = self._splitter.tail()
        if tail is None or now - self._fed_at < QUIET_S or tail == self._reported:
            return
        self.send([row(self._placed(tail), tail[1], tail[2], arrived)])
        self._note_reported(tail)

    def end(self, error: "str | None" = None) -> None:
        """Send the last frame; `error`: why the tail ends."""
        for frame in lines_frames(self.number, self._file, [], done=True, error=error):
            self._outbox.put("L", frame)

    def _placed(self, one: "tuple[int, int, str]") -> int:
        """Return the offset under which to send a row: for a progress bar, that of its first state."""
        if not is_bar(one[2]):
            self._bar = None
            return one[0]
        if self._bar is None:
            self._bar = one[0]
        return self._bar

    def _note_reported(self, tail: "tuple[int, int, str]") -> None:
        self._reported = tail
        if is_bar(tail[2]) and self._bar is None:
            self._bar = tail[0]

    def send(self, rows: "list[list[Any]]", **rest: "Any") -> None:
        """Send rows. While the pipe is full, drop and count them; the next frame states the number."""
        if self._outbox.waiting > BRIM_BYTES:
            self._dropped += len(rows)
            return
        if self._dropped:
            left_out = "{:,} lines are not shown: the connection is too slow for them".format(self._dropped)
            self._dropped = 0
            rest["seam"] = "; ".join(one for one in (left_out, rest.get("seam")) if one)
        for frame in lines_frames(self.number, self._file, rows, **rest):
            self._outbox.put("L", frame)
