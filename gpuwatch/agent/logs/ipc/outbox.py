"""Sends the log reader's output: one line per message, non-blocking and bounded.

A message is a letter and JSON. Whole frames, passed on unchanged: F a finding, R progress, L lines, G the
file list, E an event, A a reply. For the agent: P places in files, B a heartbeat, N notices.
"""

import json
import os
import time
from collections import deque

from .allowance import FindingAllowance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FULL_BYTES = 1 << 20
"""Bytes waiting at which reading stops; the files keep the data."""
BRIM_BYTES = 4 << 20
"""Bytes waiting at which lines of tails are dropped."""
FRAME_BYTES = 192 * 1024
"""Bytes of a `Lines` frame; JSON may enlarge it a few times, and the wire accepts 1 MiB."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=True).encode


class Outbox(object):
    """The queue of the log reader's messages to the agent; keeps what the pipe does not accept."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending: deque[bytes] = deque()
        self._bytes = 0
        self._allowance = FindingAllowance()
        os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        """Return the pipe's descriptor, for select."""
        return self._descriptor

    @property
    def waiting(self) -> int:
        """Return the number of bytes that the pipe has not accepted yet."""
        return self._bytes

    @property
    def full(self) -> bool:
        """Return True if producers of messages should pause."""
        return self._bytes >= FULL_BYTES

    @property
    def paused(self) -> bool:
        """Return True if files must not be read now: too much waits, or too many findings were reported."""
        return self.full or self._allowance.used_up

    def put(self, letter: str, content: "Any") -> None:
        """Queue a message."""
        self.put_text(letter, _encode(content))

    def put_text(self, letter: str, text: str) -> None:
        """Queue a message whose content is JSON text already."""
        data = (letter + text + "\n").encode("ascii")
        self._pending.append(data)
        self._bytes += len(data)
        if letter == "F":
            self._allowance.spend(len(data))

    def flush(self) -> None:
        """Write what the pipe accepts now.

        Raises:
            OSError: the agent has ended.
        """
        while self._pending:
            data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending.clear()
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                written = 0
            self._bytes -= written
            if written < len(data):
                self._pending.append(data[written:])
                return


def lines_frames(number: int, file: str, rows: "list[list[Any]]", **rest: "Any") -> "list[dict[str, Any]]":
    """Return `wire.Lines` frames with the rows, split by size; at least one.

    `rest`: further keys; a seam goes with the first frame, everything else with the last.
    """
    frames: list[dict[str, Any]] = []
    begin = size = 0
    head = {"kind": "lines", "t": round(time.time(), 3), "id": number, "file": file}
    for at, row in enumerate(rows):
        size += 3 * len(row[2]) + 100
        if size > 2 * FRAME_BYTES and at > begin:
            frames.append(dict(head, lines=rows[begin:at]))
            begin, size = at, 3 * len(row[2]) + 100
    frames.append(dict(head, lines=rows[begin:]))
    seam = rest.pop("seam", None)
    if seam is not None:
        frames[0]["seam"] = seam
    frames[-1].update((key, value) for key, value in rest.items() if value is not None)
    return frames
