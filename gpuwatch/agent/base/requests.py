"""Reads requests: JSON lines on stdin, non-blocking."""

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

MAX_LINE = 65536
_CHUNK = 65536


class Requests(object):
    """Splits stdin into requests. `ended` is set at end of file: the cockpit is gone."""

    def __init__(self, stdin: "BinaryIO", max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._descriptor = stdin.fileno()
        self._was_blocking = os.get_blocking(self._descriptor)
        os.set_blocking(self._descriptor, False)
        # The loader's buffered reader may have read beyond the bundle: the descriptor lacks these bytes.
        peek = getattr(stdin, "peek", None)
        self._rest = stdin.read(len(peek())) or b"" if peek is not None and peek() else b""
        self._skipping = False
        self.ended = False

    def fileno(self) -> int:
        """Return the descriptor of stdin, for select."""
        return self._descriptor

    def read(self) -> "list[Any]":
        """Return the requests received since the last call: decoded JSON, ValueError for an invalid line."""
        try:
            data = os.read(self._descriptor, _CHUNK)
            self.ended = not data
        except BlockingIOError:
            data = b""
        except OSError:
            data, self.ended = b"", True
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        found = []
        for line in lines:
            if self._skipping:
                self._skipping = False
            elif line.strip():
                found.append(_parse(line) if len(line) <= self._max_line else _too_long(self._max_line))
        if len(self._rest) > self._max_line:
            if not self._skipping:
                found.append(_too_long(self._max_line))
            self._rest, self._skipping = b"", True
        return found

    def restore(self) -> None:
        """Restore the flags of stdin's descriptor, since other processes may share it."""
        os.set_blocking(self._descriptor, self._was_blocking)


def _too_long(limit: int) -> "ValueError":
    return ValueError("the request is longer than {} bytes".format(limit))


def _parse(line: bytes) -> "Any":
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return ValueError("not a request: {}".format(str(error)[:200]))
    return request if isinstance(request, dict) else ValueError("not a request: a JSON object is expected")
