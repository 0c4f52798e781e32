"""Limits on a node's stream: login output, line length, rates, refusals. The far end is not trusted."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.link.stream.inbox import Refused
from gpuwatch.number_text import limit_text

START_MARK = "GPUWATCH1"
"""First text of the line that an agent prints when it has started, before its nonce."""
NOISE_LIMIT_BYTES = 64 * 1024


class StreamError(Exception):
    """Raised if the stream cannot continue; the message is a sentence that is safe to show."""


class StartFinder:
    """Searches for the start marker; everything before it is login shell output."""

    def __init__(self, nonce: str, mark: str = START_MARK) -> None:
        self.found = False
        self._mark = f"\n{mark} {nonce}\n".encode()
        self._noise = bytearray()

    @property
    def noise(self) -> str:
        """Return the raw output before the start marker: sanitize it before display."""
        return self._noise.decode("utf-8", "replace")

    def feed(self, data: bytes) -> bytes | None:
        """Search the next bytes; return those after the start marker once it arrives, None before.

        Raises:
            StreamError: Too many bytes came without the marker.
        """
        searched = max(0, len(self._noise) - len(self._mark))
        self._noise += data
        at = self._noise.find(self._mark, searched)
        if at < 0 or at > NOISE_LIMIT_BYTES:
            if len(self._noise) > NOISE_LIMIT_BYTES + len(self._mark):
                del self._noise[NOISE_LIMIT_BYTES:]
                raise StreamError(
                    f"more than {limit_text(NOISE_LIMIT_BYTES)} of output came before the agent started; "
                    "check what the rc files print in a shell that is not interactive"
                )
            return None
        rest = bytes(self._noise[at + len(self._mark) :])
        del self._noise[at:]
        self.found = True
        return rest


class LineSplitter:
    """Splits chunks of bytes into lines of limited length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def split(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield the lines that end in this chunk, and None for each line that is too long.

        The unfinished line is kept for the next chunk.
        """
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._keep(piece)
            yield None if self._size > self._limit else b"".join(self._parts)
            self._parts, self._size = [], 0
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._parts = []
        elif piece:
            self._parts.append(piece)


class TokenBucket:
    """A rate limit: holds up to `burst` tokens, and gains `per_s` a second."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._left, self._at = burst, 0.0

    def spend(self, amount: float, now: float) -> bool:
        """Take `amount` tokens at `now` (monotonic seconds).

        Return False, taking none, if there are too few.
        """
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if amount > self._left:
            return False
        self._left -= amount
        return True


class Refusals:
    """Counts refused data, so that a flood of bad lines does not become a flood of arrivals."""

    _EVERY_S = 1.0

    def __init__(self) -> None:
        self._count, self._reason = 0, ""
        self._reported_at = float("-inf")

    def add(self, reason: str) -> None:
        """Count one refusal, and keep its reason for the next report."""
        self._count += 1
        self._reason = reason

    def due(self, now: float) -> list[Refused]:
        """Return the refusals since the last report, merged into one; empty if there are none.

        Empty also within a second of the last report.
        """
        if not self._count or now - self._reported_at < self._EVERY_S:
            return []
        reported = Refused(self._reason, self._count)
        self._count, self._reported_at = 0, now
        return [reported]
