"""From an agent's bytes to frames. Pure: bytes and the time go in, items come out; every bound is here.

Before the start marker everything is the login shell's noise. After it comes one zlib stream of JSON lines.
The far end is not trusted: noise, inflated bytes, line length and frames a second are all limited.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gpuwatch.link.boot import START_MARK
from gpuwatch.link.inbox import Refused
from gpuwatch.wire import MAX_LINE_BYTES, AnyFrame, FrameError, decode

NOISE_LIMIT_BYTES = 64 * 1024
INFLATE_STEP_BYTES = 256 * 1024


@dataclass(frozen=True)
class StreamLimits:
    """Allowances that refill with time; an agent at 10 Hz with all its GPUs stays a hundred times below."""

    frames_per_s: float = 200.0
    frames_burst: float = 1_000.0
    """A node that was stopped sends what piled up, all at once."""
    bytes_per_s: float = 8.0 * (1 << 20)
    """Inflated bytes; over it the stream is given up, because zlib cannot be skipped."""
    bytes_burst: float = 32.0 * (1 << 20)


class StreamError(Exception):
    """The stream cannot go on; the message is a sentence that is safe to show."""


@dataclass(frozen=True, slots=True)
class Started:
    """The agent's start marker came."""


Item: TypeAlias = Started | AnyFrame | Refused


class FrameStream:
    """Feed it what arrives, in pieces of any size."""

    def __init__(self, nonce: str, limits: StreamLimits | None = None) -> None:
        self.started = False
        self._limits = limits or StreamLimits()
        self._mark = f"\n{START_MARK} {nonce}\n".encode()
        self._noise = bytearray()
        self._inflate = zlib.decompressobj()
        self._lines = _LineSplitter(MAX_LINE_BYTES)
        self._frames = _Allowance(self._limits.frames_per_s, self._limits.frames_burst)
        self._bytes = _Allowance(self._limits.bytes_per_s, self._limits.bytes_burst)
        self._refused = _Refusals()

    @property
    def noise(self) -> str:
        """What came before the start marker, as it came: clean it before it is shown."""
        return self._noise.decode("utf-8", "replace")

    def feed(self, data: bytes, now: float) -> Iterator[Item]:
        """Take the next bytes; consume the iterator to its end before feeding more.

        Args:
            data: What was read, of any length.
            now: Monotonic seconds, for the allowances.

        Yields:
            `Started` once, then frames in order, then at most one `Refused` for all that was not a frame.

        Raises:
            StreamError: endless noise, a broken zlib stream, or more inflated bytes than an agent ever sends.
        """
        if not self.started:
            rest = self._find_start(data)
            if rest is None:
                return
            yield Started()
            data = rest
        for chunk in self._inflated(data, now):
            for line in self._lines.split(chunk):
                frame = self._frame(line, now)
                if frame is not None:
                    yield frame
        yield from self._refused.due(now)

    def _find_start(self, data: bytes) -> bytes | None:
        searched = max(0, len(self._noise) - len(self._mark))
        self._noise += data
        at = self._noise.find(self._mark, searched)
        if at < 0 or at > NOISE_LIMIT_BYTES:
            if len(self._noise) > NOISE_LIMIT_BYTES + len(self._mark):
                del self._noise[NOISE_LIMIT_BYTES:]
                raise StreamError(
                    f"more than {NOISE_LIMIT_BYTES // 1024} kB of noise came before the agent started; "
                    "look at what its rc files print in a shell that is not interactive"
                )
            return None
        rest = bytes(self._noise[at + len(self._mark) :])
        del self._noise[at:]
        self.started = True
        return rest

    def _inflated(self, data: bytes, now: float) -> Iterator[bytes]:
        more = bool(data)
        while more and not self._inflate.eof:
            try:
                chunk = self._inflate.decompress(data, INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise StreamError(
                    f"the agent's stream is damaged ({error}); "
                    "something on the way, or a program on the node, writes into it"
                ) from error
            if not self._bytes.spend(len(chunk), now):
                raise StreamError(
                    f"the node sent more than {self._limits.bytes_per_s / (1 << 20):.0f} MB a second; "
                    "no agent does that, so the link was closed"
                )
            yield chunk
            data = self._inflate.unconsumed_tail
            more = bool(data) or len(chunk) == INFLATE_STEP_BYTES

    def _frame(self, line: bytes | None, now: float) -> AnyFrame | None:
        if line is None:
            self._refused.add(f"a frame of more than {MAX_LINE_BYTES} bytes")
        elif not self._frames.spend(1, now):
            self._refused.add(
                f"more than {self._limits.frames_per_s:.0f} frames a second; the rest was dropped"
            )
        else:
            try:
                return decode(line)
            except FrameError as error:
                self._refused.add(str(error))
        return None


class _LineSplitter:
    """Lines of bounded length out of chunks; an overlong line comes out as None, once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def split(self, chunk: bytes) -> Iterator[bytes | None]:
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


class _Allowance:
    """A token bucket."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._left, self._at = burst, 0.0

    def spend(self, amount: float, now: float) -> bool:
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if amount > self._left:
            return False
        self._left -= amount
        return True


class _Refusals:
    """Counts refusals, so that a flood of bad lines does not become a flood of arrivals."""

    _EVERY_S = 1.0

    def __init__(self) -> None:
        self._count, self._reason = 0, ""
        self._told_at = float("-inf")

    def add(self, reason: str) -> None:
        self._count += 1
        self._reason = reason

    def due(self, now: float) -> list[Refused]:
        """The refusals since the last time, as one, at most once a second."""
        if not self._count or now - self._told_at < self._EVERY_S:
            return []
        told = Refused(self._reason, self._count)
        self._count, self._told_at = 0, now
        return [told]
