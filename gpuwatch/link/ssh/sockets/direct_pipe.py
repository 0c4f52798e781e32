"""A channel's buffer that can hand what arrives to a function at once.

A reader that wakes for every packet costs as much CPU as all else of a connection: with many connections
the threads wait for each other. The function runs in the connection's own thread instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from paramiko.buffered_pipe import BufferedPipe

BATCH_BYTES = 64 * 1024
"""Taken bytes after which the reader wakes to give the server its window (2 MiB) back."""


class DirectPipe(BufferedPipe):  # type: ignore[type-arg] # generic in the stubs only
    """A channel's buffer that can pass received bytes to a function instead of keeping them.

    Once a function receives the bytes, a reader gets as many zeros instead, in batches.
    """

    def __init__(self, reader_is_wanted: Callable[[], bool]) -> None:
        """Create the buffer; `reader_is_wanted` returns True if a reader must be woken at once."""
        super().__init__()
        self.error: Exception | None = None
        """What the function raised."""
        self._reader_is_wanted = reader_is_wanted
        self._order = threading.Lock()
        """Held while bytes are handed over, so that they keep their order."""
        self._take: Callable[[bytes], None] | None = None
        self._taken = 0

    def hand_to(self, take: Callable[[bytes], None]) -> None:
        """Call `take` with the bytes received so far and, in the feeding thread, with all later ones."""
        with self._order:
            self._take = take
            self._hand(self.empty())

    def feed(self, data: bytes | str) -> None:
        """Pass received bytes to the function of `hand_to`; keep them while there is none."""
        with self._order:
            if self._take is None or isinstance(data, str):
                super().feed(data)
            else:
                self._hand(data)

    def _hand(self, data: bytes) -> None:
        if self._take is None or self.error is not None or not data:
            return
        try:
            self._take(data)
        except Exception as error:
            self.error = error
            self.close()
            return
        self._taken += len(data)
        if self._taken >= BATCH_BYTES or self._reader_is_wanted():
            super().feed(bytes(self._taken))
            self._taken = 0
