"""The log reader's way out: one line a message, never waited for, and bounded.

A message is a letter, which states what the agent does with it, and JSON: F a finding, R progress, L lines, G
the list of files, E an event, A a reply (all of them whole frames, passed on as they are); P places in files,
B a beat, N notices (for the agent itself).
"""

import json
import os
import time
from collections import deque

from .allowance import FindingAllowance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

FULL_BYTES = 1 << 20
"""With so much waiting nothing more is read: the files keep it for us."""
BRIM_BYTES = 4 << 20
"""With so much waiting the lines of tails are dropped."""
FRAME_BYTES = 192 * 1024
"""Of a `Lines` frame at most; JSON may make a few times as much of it, the wire takes 1 MiB."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=True).encode


class Outbox(object):
    """Keeps what the pipe does not take."""

    def __init__(self, descriptor):
        # type: (int) -> None
        self._descriptor = descriptor
        self._pending = deque()  # type: deque[bytes]
        self._bytes = 0
        self._allowance = FindingAllowance()
        os.set_blocking(descriptor, False)

    def fileno(self):
        # type: () -> int
        """For select."""
        return self._descriptor

    @property
    def waiting(self):
        # type: () -> int
        """Bytes that the pipe has not taken."""
        return self._bytes

    @property
    def full(self):
        # type: () -> bool
        """Whether whoever makes messages should pause."""
        return self._bytes >= FULL_BYTES

    @property
    def paused(self):
        # type: () -> bool
        """Whether files are not read, as too much waits or too many findings were reported of late."""
        return self.full or self._allowance.used_up

    def put(self, letter, content):
        # type: (str, Any) -> None
        """Send a message as soon as the pipe takes it."""
        self.put_text(letter, _encode(content))

    def put_text(self, letter, text):
        # type: (str, str) -> None
        """The same of JSON text."""
        data = (letter + text + "\n").encode("ascii")
        self._pending.append(data)
        self._bytes += len(data)
        if letter == "F":
            self._allowance.spend(len(data))

    def flush(self):
        # type: () -> None
        """Write what the pipe takes now.

        Raises:
            OSError: the agent is gone.
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


def lines_frames(number, file, rows, **rest):
    # type: (int, str, list[list[Any]], Any) -> list[dict[str, Any]]
    """`wire.Lines` frames that hold the rows, split so that none becomes too long; at least one.

    `rest` are further keys: a seam goes with the first frame, everything else with the last one.
    """
    frames = []  # type: list[dict[str, Any]]
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
