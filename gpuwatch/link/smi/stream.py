"""Converts the fallback's bytes into frames, with all limits."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.link.smi.node import SmiNode
from gpuwatch.link.stream.frame_stream import Item, MarkedStream, Started
from gpuwatch.link.stream.limits import LineSplitter, StreamError, TokenBucket
from gpuwatch.plain import plain
from gpuwatch.wire import AnyFrame, FrameError, decode, encode

LINE_LIMIT_BYTES = 4096
"""Longest line; a row has about 300 bytes."""
LINE_LIMIT_CHARACTERS = 1000
LINES_PER_S, LINES_BURST = 3_000.0, 20_000.0
"""Rate limit; 64 GPUs and /proc/meminfo five times a second are 600 lines."""
FRAMES_PER_S, FRAMES_BURST = 100.0, 500.0
BYTES_PER_S, BYTES_BURST = 1.0 * (1 << 20), 8.0 * (1 << 20)
LINE_BYTES = 64
"""Bytes that a line counts as in addition to its own: an empty one takes time as well."""


class SmiStream(MarkedStream):
    """Converts the bytes of the fallback's shell command into frames, as an `ItemStream`."""

    def __init__(self, nonce: str, interval_s: float, python: str | None) -> None:
        """Wait for the start marker with this nonce; other arguments as for `SmiNode`."""
        super().__init__(nonce)
        self._interval_s = interval_s
        self._python = python
        self._node: SmiNode | None = None
        self._splitter = LineSplitter(LINE_LIMIT_BYTES)
        self._bytes = TokenBucket(BYTES_PER_S, BYTES_BURST)
        self._lines = TokenBucket(LINES_PER_S, LINES_BURST)
        self._frames = TokenBucket(FRAMES_PER_S, FRAMES_BURST)

    def feed(self, data: bytes, now: float) -> Iterator[Item]:
        """Process the next bytes; exhaust the iterator before feeding more.

        Yields:
            `Started` once, then the frames that the bytes make, then at most one `Refused`.

        Raises:
            StreamError: too much output before the start marker, or more bytes than nvidia-smi ever writes.
        """
        if self._node is None:
            rest = self._start.look(data)
            if rest is None:
                return
            self._node = SmiNode(self._interval_s, self._python, now)
            yield Started()
            data = rest
        if not self._bytes.spend(len(data) + LINE_BYTES * data.count(b"\n"), now):
            raise StreamError(
                f"the node sent more than {BYTES_PER_S / (1 << 20):.0f} MiB/s, which is not "
                "nvidia-smi output; the link was closed"
            )
        for line in self._splitter.split(data):
            self._take(self._node, line, now)
        if self._frames.spend(1, now):
            for frame in self._node.frames(now):
                yield from self._checked(frame)
        yield from self._refused.due(now)

    def _checked(self, frame: AnyFrame) -> Iterator[AnyFrame]:
        """Yield the frame if it fits the bounds of an agent's, else refuse it."""
        try:
            yield decode(encode(frame))
        except FrameError as error:
            self._refused.add(str(error))

    def _take(self, node: SmiNode, line: bytes | None, now: float) -> None:
        if line is None:
            self._refused.add(f"a line of more than {LINE_LIMIT_BYTES} bytes")
        elif not self._lines.spend(1, now):
            self._refused.add(f"more than {LINES_PER_S:.0f} lines per second; the rest was dropped")
        else:
            refused = node.take(plain(line.decode("utf-8", "replace").strip())[:LINE_LIMIT_CHARACTERS], now)
            if refused is not None:
                self._refused.add(refused)
