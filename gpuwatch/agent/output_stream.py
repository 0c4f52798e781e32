"""Sends frames as one zlib stream over a non-blocking descriptor."""

import json
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


class OutputStream(object):
    """Writes frames to a pipe as one zlib stream, and stores what the pipe does not accept.

    While bytes are stored, nothing new may be written. A zlib stream cannot lose data in the middle: frames
    must be dropped before compression.
    """

    def __init__(self, descriptor: int, nonce: str) -> None:
        self._descriptor = descriptor
        self._was_blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)
        self._stream = zlib.compressobj()
        self._pending = b"\nGPUWATCH1 " + nonce.encode("ascii") + b"\n"

    def fileno(self) -> int:
        """Return the descriptor of the pipe, for select."""
        return self._descriptor

    @property
    def full(self) -> bool:
        """Return True if data waits because the pipe is full."""
        return bool(self._pending)

    def write(self, frames: "Iterable[dict[str, Any] | str]") -> None:
        """Send a batch of frames; a frame may already be JSON. Call only when not `full`.

        Raises:
            OSError: the reader has closed the pipe.
        """
        text = _valid(
            "".join([(frame if isinstance(frame, str) else _encode(frame)) + "\n" for frame in frames])
        )
        self._pending += self._stream.compress(text) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        self.flush()

    def flush(self) -> None:
        """Write what the pipe accepts now.

        Raises:
            OSError: the reader has closed the pipe.
        """
        while self._pending:
            try:
                written = os.write(self._descriptor, self._pending)
            except BlockingIOError:
                return
            self._pending = self._pending[written:]

    def restore(self) -> None:
        """Restore the flags of the pipe's descriptor, since other processes may share it."""
        os.set_blocking(self._descriptor, self._was_blocking)


def _valid(text: str) -> bytes:
    """Return the text as UTF-8; unpaired surrogates (from names that are not UTF-8) become U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
