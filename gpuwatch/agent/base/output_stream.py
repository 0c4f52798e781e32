"""The way out: frames as one zlib stream on a descriptor that is never waited for."""

import json
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable  # noqa: F401 - used in type comments

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


class OutputStream(object):
    """Writes what the pipe takes and keeps the rest; while a rest is kept, nothing new is taken.

    A zlib stream cannot lose its middle: what is dropped must be dropped before it is compressed.
    """

    def __init__(self, descriptor, nonce):
        # type: (int, str) -> None
        self._descriptor = descriptor
        self._was_blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)
        self._stream = zlib.compressobj()
        self._pending = b"\nGPUWATCH1 " + nonce.encode("ascii") + b"\n"

    def fileno(self):
        # type: () -> int
        """For select."""
        return self._descriptor

    @property
    def full(self):
        # type: () -> bool
        """Whether something waits for the reader of the pipe."""
        return bool(self._pending)

    def write(self, frames):
        # type: (Iterable[dict[str, Any] | str]) -> None
        """Send one batch; a frame may already be JSON. Only to be called when not `full`.

        Raises:
            OSError: the reader is gone.
        """
        text = _valid(
            "".join([(frame if isinstance(frame, str) else _encode(frame)) + "\n" for frame in frames])
        )
        self._pending += self._stream.compress(text) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        self.flush()

    def flush(self):
        # type: () -> None
        """Write what the pipe takes now.

        Raises:
            OSError: the reader is gone.
        """
        while self._pending:
            try:
                written = os.write(self._descriptor, self._pending)
            except BlockingIOError:
                return
            self._pending = self._pending[written:]

    def restore(self):
        # type: () -> None
        """Leave the descriptor as it was found: others may share it."""
        os.set_blocking(self._descriptor, self._was_blocking)


def _valid(text):
    # type: (str) -> bytes
    """UTF-8 for a strict reader: halves of a character (a name's bytes that are no UTF-8) are replaced."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
