"""Shows the status in the terminal's title, only when that cannot break an escape sequence of the command."""

from __future__ import annotations

import os
import re

MAX_TITLE_CHARS = 120
KEPT_BYTES = 4_096
"""Number of bytes of the last output in which an unfinished sequence is searched."""
UNFINISHED = re.compile(
    rb"(?:\x1b(?:\[[0-?]*[ -/]*|[ -/]*|[\]P_^X][^\x07\x1b]*\x1b?)?"
    rb"|[\xc0-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf7][\x80-\xbf]{0,2})\Z"
)
"""Matches the beginning of an escape sequence or of a UTF-8 character at the end of the output."""
PLAIN_TERMINALS = {"", "dumb", "linux"}


class TerminalTitle:
    """Saves the terminal's title, sets it to `wanted`, and restores it."""

    def __init__(self, stream: int | None) -> None:
        """Create the title for `stream`, the descriptor of a terminal; None: nothing is ever written."""
        has_title = os.environ.get("TERM", "") not in PLAIN_TERMINALS
        self._stream = stream if has_title else None
        self._is_saved = False
        self._last = b""
        self._shown = ""
        self.wanted = ""

    def passed(self, data: bytes) -> None:
        """Record the output that the command wrote last: the title must not split an escape sequence."""
        self._last = (self._last[-KEPT_BYTES:] + data)[-KEPT_BYTES:]

    @property
    def is_in_line(self) -> bool:
        """True if the command's output ends within a line."""
        return bool(self._last) and not self._last.endswith(b"\n")

    def show(self) -> None:
        """Write `wanted` as the title if it has changed, unless the output ends within a sequence."""
        if self._stream is None or self.wanted == self._shown or UNFINISHED.search(self._last):
            return
        if not self._is_saved:
            self._write("\x1b[22;2t")
            self._is_saved = True
        self._write(f"\x1b]2;{self.wanted[:MAX_TITLE_CHARS]}\x07")
        self._shown = self.wanted

    def restore(self) -> None:
        """Restore the title from before the first `show`; does nothing if it was never set."""
        if self._is_saved:
            self._write("\x1b[23;2t")

    def _write(self, text: str) -> None:
        try:
            os.write(self._stream or 0, text.encode(errors="replace"))
        except OSError:
            self._stream = None


def title_stream() -> int | None:
    """Return stdout or stderr (1 or 2), the first that is a terminal; None if neither is."""
    return next((stream for stream in (1, 2) if os.isatty(stream)), None)
