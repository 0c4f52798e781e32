"""From an agent's bytes to frames. Pure: bytes and the time go in, items come out; every bound is here.

Before the start marker everything is the login shell's noise. After it comes one zlib stream of JSON lines.
The far end is not trusted: noise, inflated bytes, line length and frames a second are all limited.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gpuwatch.link.stream.inbox import Refused
from gpuwatch.link.stream.limits import LineSplitter, Refusals, StartFinder, StreamError, TokenBucket
from gpuwatch.wire import MAX_LINE_BYTES, AnyFrame, FrameError, Lines, Reply, Sample, decode

INFLATE_STEP_BYTES = 256 * 1024
SAMPLE_BYTES = 4096
"""Of a GPU or the host in one sample, which replaces the one before."""


@dataclass(frozen=True)
class StreamLimits:
    """Allowances that refill with time; an agent at 10 Hz with all its GPUs stays a hundred times below."""

    frames_per_s: float = 200.0
    frames_burst: float = 1_000.0
    """A node that was stopped sends what piled up, all at once."""
    bytes_per_s: float = 8.0 * (1 << 20)
    """Inflated bytes; over it the stream is given up, because zlib cannot be skipped."""
    bytes_burst: float = 32.0 * (1 << 20)
    kept_bytes_per_s: float = 512.0 * (1 << 10)
    """Of frames whose text is kept (findings, events, lists); with 512 log files an agent stays under it."""
    kept_bytes_burst: float = 24.0 * (1 << 20)
    """A backlog of thousands of findings comes at once."""


@dataclass(frozen=True, slots=True)
class Started:
    """The agent's start marker came."""


Item: TypeAlias = Started | AnyFrame | Refused


class ItemStream(Protocol):
    """What a call makes of the bytes that it reads."""

    @property
    def started(self) -> bool:
        """Whether the start marker came."""
        ...

    @property
    def noise(self) -> str:
        """What came before it, as it came."""
        ...

    def feed(self, data: bytes, now: float) -> Iterator[Item]:
        """Take the next bytes, at `now` (monotonic seconds).

        Raises:
            StreamError: the stream cannot go on.
        """
        ...


class MarkedStream:
    """A stream that begins behind a start marker, and counts what it refuses."""

    def __init__(self, nonce: str) -> None:
        self._start = StartFinder(nonce)
        self._refused = Refusals()

    @property
    def started(self) -> bool:
        """Whether the start marker came."""
        return self._start.found

    @property
    def noise(self) -> str:
        """What came before the start marker, as it came: clean it before it is shown."""
        return self._start.noise


class FrameStream(MarkedStream):
    """Feed it what arrives, in pieces of any size."""

    def __init__(
        self, nonce: str, limits: StreamLimits | None = None, kept: TokenBucket | None = None
    ) -> None:
        """`kept`: of bytes that are kept, where it goes on over several connections."""
        super().__init__(nonce)
        self._limits = limits or StreamLimits()
        self._inflate = zlib.decompressobj()
        self._lines = LineSplitter(MAX_LINE_BYTES)
        self._frames = TokenBucket(self._limits.frames_per_s, self._limits.frames_burst)
        self._bytes = TokenBucket(self._limits.bytes_per_s, self._limits.bytes_burst)
        self._kept = kept or kept_allowance(self._limits)

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
            rest = self._start.look(data)
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
                frame = decode(line)
            except FrameError as error:
                self._refused.add(str(error))
            else:
                if not self._kept.spend(kept_bytes(frame, len(line)), now):
                    raise StreamError(
                        f"the node sent more than {self._limits.kept_bytes_per_s / 1024:.0f} kB a second of "
                        "findings, events and lists; no agent does that, so the link was closed"
                    )
                return frame
        return None


def kept_allowance(limits: StreamLimits | None = None) -> TokenBucket:
    """Of the bytes of one node that are kept."""
    limits = limits or StreamLimits()
    return TokenBucket(limits.kept_bytes_per_s, limits.kept_bytes_burst)


def kept_bytes(frame: AnyFrame, size: int) -> int:
    """How many of a frame's bytes stay in memory once the next frame has come; answers are asked for."""
    if isinstance(frame, (Lines, Reply)):
        return 0
    if isinstance(frame, Sample):
        return max(0, size - SAMPLE_BYTES * (1 + len(frame.gpus)))
    return size
