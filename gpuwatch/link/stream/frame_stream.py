r"""Decodes an agent's bytes into frames. Pure: bytes and the time in, items out; all limits are here.

Before the start marker everything is the login shell's output. After it comes one zlib stream of JSON lines.
The far end is not trusted: shell output, inflated bytes, line length and frames per second are limited.

Example: `Welcome!\nGPUWATCH1 NONCE\n` and a zlib stream arrive. `Welcome!` is kept as `noise`, the marker
with the right nonce yields `Started`, and each inflated line yields a frame; a line that is no valid frame is
counted and yields one `Refused` with the reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from msgspec import Struct

from gpuwatch.link.stream.inbox import Refused
from gpuwatch.link.stream.limits import LineSplitter, Refusals, StartFinder, StreamError, TokenBucket
from gpuwatch.number_text import limit_text
from gpuwatch.wire import MAX_LINE_BYTES, AnyFrame, Finding, FrameError, Lines, Reply, Sample, decode
from gpuwatch.wire.limits import FIRST_OWN_FINDING

INFLATE_STEP_BYTES = 256 * 1024
SAMPLE_BYTES = 4096
"""Bytes of a GPU or host in one sample, which replaces the previous one."""


class StreamLimits(Struct, frozen=True):
    """The rate limits of one node's stream; an agent at 10 Hz with all its GPUs stays far below them."""

    frames_per_s: float = 200.0
    frames_burst: float = 1_000.0
    """A node that was stopped sends everything that accumulated at once."""
    bytes_per_s: float = 8.0 * (1 << 20)
    """Inflated bytes per second; above it the stream is closed, because zlib data cannot be skipped."""
    bytes_burst: float = 32.0 * (1 << 20)
    max_line_bytes: int = MAX_LINE_BYTES
    line_bytes: int = 512
    """Bytes that a line counts as in addition to its own: an empty one takes time as well."""
    kept_bytes_per_s: float = 512.0 * (1 << 10)
    """Bytes per second of stored frames (findings, events, lists).

    An agent with 512 log files stays below.
    """
    kept_bytes_burst: float = 24.0 * (1 << 20)
    """Burst of kept bytes; a backlog of thousands of findings is sent at once."""


class Started(Struct, frozen=True):
    """The item for the start marker of the agent, which has arrived."""


Item: TypeAlias = Started | AnyFrame | Refused


class ItemStream(Protocol):
    """Converts a connection's bytes into items: `Started`, frames, `Refused`."""

    @property
    def started(self) -> bool:
        """Return True once the start marker has arrived."""
        ...

    @property
    def noise(self) -> str:
        """Return the raw output before the start marker."""
        ...

    @property
    def line(self) -> bytes | None:
        """Return the line of the last frame that was yielded; None: frames of this stream are not lines."""
        ...

    def feed(self, data: bytes, now: float) -> Iterator[Item]:
        """Process the next bytes, at `now` (monotonic seconds), and yield the items in them.

        Raises:
            StreamError: the stream cannot continue.
        """
        ...


class BoundedStream:
    """The base of streams of lines after a start marker, with limits on lines, bytes and refused data.

    Subclasses decode the lines. Above the limit on bytes the stream is closed, because zlib data cannot be
    skipped; above the limit on lines, lines are dropped and counted.
    """

    sender = "an agent"
    unit = "frame"
    """What a line is, in texts."""

    def __init__(self, nonce: str, limits: StreamLimits) -> None:
        self._start = StartFinder(nonce)
        self._refused = Refusals()
        self._limits = limits
        self._splitter = LineSplitter(limits.max_line_bytes)
        self._bytes = TokenBucket(limits.bytes_per_s, limits.bytes_burst)
        self._lines = TokenBucket(limits.frames_per_s, limits.frames_burst)
        self.line: bytes | None = None
        """The line of the frame that was yielded last, unsanitized."""

    @property
    def started(self) -> bool:
        """Return True once the start marker has arrived."""
        return self._start.found

    @property
    def noise(self) -> str:
        """Return the raw output before the start marker: sanitize it before display."""
        return self._start.noise

    def feed(self, data: bytes, now: float) -> Iterator[Item]:
        """Process the next bytes; exhaust the iterator before feeding more.

        Args:
            data: What was read, of any length.
            now: Monotonic seconds, for the rate limits.

        Yields:
            `Started` once, then frames in order, then at most one `Refused` for all that was not a frame.

        Raises:
            StreamError: too much output before the start marker, a broken zlib stream, or more bytes than the
                sender ever writes.
        """
        if not self.started:
            rest = self._start.feed(data)
            if rest is None:
                return
            yield Started()
            data = rest
        for chunk in self.chunks(data, now):
            self.spend(len(chunk) + self._limits.line_bytes * chunk.count(b"\n"), now, self._bytes)
            for line in self._splitter.split(chunk):
                if line is None:
                    self._refused.add(f"a {self.unit} of more than {self._limits.max_line_bytes} bytes")
                elif not self._lines.spend(1, now):
                    most = f"{self._limits.frames_per_s:.0f} {self.unit}s per second"
                    self._refused.add(f"more than {most}; the rest was dropped")
                else:
                    yield from self.frames_of(line, now)
        yield from self.frames_after(now)
        yield from self._refused.due(now)

    def spend(self, count: int, now: float, bucket: TokenBucket) -> None:
        """Take `count` tokens (bytes) from a bucket.

        Raises:
            StreamError: The bucket holds fewer.
        """
        if not bucket.spend(count, now):
            most = limit_text(int(self._limits.bytes_per_s))
            raise StreamError(
                f"the node sent more than {most}/s, or as many lines as take as long, "
                f"which is not the output of {self.sender}; the link was closed"
            )

    def chunks(self, data: bytes, now: float) -> Iterator[bytes]:  # noqa: ARG002 - a subclass needs the time
        """Yield the decoded (inflated) bytes of the received bytes `data`, in pieces."""
        yield data

    def frames_of(self, line: bytes, now: float) -> Iterator[AnyFrame]:
        """Yield the frames of a line; a line that is no frame is counted as refused."""
        raise NotImplementedError

    def frames_after(self, now: float) -> Iterator[AnyFrame]:  # noqa: ARG002 - a subclass needs the time
        """Yield the frames that depend on all lines received so far: none, unless a subclass has some."""
        yield from ()


class FrameStream(BoundedStream):
    """Converts an agent's bytes into frames. Feed it the received bytes, in pieces of any size."""

    def __init__(
        self, nonce: str, limits: StreamLimits | None = None, kept: TokenBucket | None = None
    ) -> None:
        """Create a stream; `kept`: bucket for stored bytes, shared by all of a node's connections."""
        super().__init__(nonce, limits or StreamLimits())
        self._inflate = zlib.decompressobj()
        self._received = TokenBucket(self._limits.bytes_per_s, self._limits.bytes_burst)
        """The limit on received bytes: a zlib stream may hold any number of bytes that inflate to nothing."""
        self._kept = kept or kept_allowance(self._limits)

    def chunks(self, data: bytes, now: float) -> Iterator[bytes]:
        self.spend(len(data), now, self._received)
        more = bool(data)
        while more and not self._inflate.eof:
            try:
                chunk = self._inflate.decompress(data, INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise StreamError(
                    f"the agent's stream is damaged ({error}); "
                    "something on the way, or a program on the node, writes into it"
                ) from error
            yield chunk
            data = self._inflate.unconsumed_tail
            more = bool(data) or len(chunk) == INFLATE_STEP_BYTES

    def frames_of(self, line: bytes, now: float) -> Iterator[AnyFrame]:
        try:
            frame = decode(line)
        except FrameError as error:
            self._refused.add(str(error))
            self._spend_kept(len(line), now)
            return
        if isinstance(frame, Finding) and frame.id >= FIRST_OWN_FINDING:
            self._refused.add("a finding with an id of the session's own")
            return
        self._spend_kept(kept_bytes(frame, len(line)), now)
        self.line = line
        yield frame

    def _spend_kept(self, size: int, now: float) -> None:
        """Take bytes that are stored or refused from the node's bucket: a refused line takes as long to read.

        Raises:
            StreamError: They are more than an agent sends.
        """
        if not self._kept.spend(size, now):
            raise StreamError(
                f"the node sent more than {limit_text(int(self._limits.kept_bytes_per_s))}/s of findings, "
                "events, lists and bad frames, which is not the output of an agent; the link was closed"
            )


def kept_allowance(limits: StreamLimits | None = None) -> TokenBucket:
    """Return the token bucket that limits how many bytes of one node's frames are kept in memory."""
    limits = limits or StreamLimits()
    return TokenBucket(limits.kept_bytes_per_s, limits.kept_bytes_burst)


def kept_bytes(frame: AnyFrame, size: int) -> int:
    """Return how many bytes of a frame stay in memory after the next frame; 0 for requested answers."""
    if isinstance(frame, (Lines, Reply)):
        return 0
    if isinstance(frame, Sample):
        return max(0, size - SAMPLE_BYTES * (1 + len(frame.gpus)))
    return size
