"""Converts the fallback's bytes into frames, with all limits."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.link.smi.node import SmiNode
from gpuwatch.link.stream.frame_stream import BoundedStream, StreamLimits
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.plain import plain
from gpuwatch.wire import AnyFrame, FrameError, decode, encode

MAX_LINE_CHARACTERS = 1000
FRAMES_PER_S, FRAMES_BURST = 100.0, 500.0
LIMITS = StreamLimits(
    frames_per_s=3_000.0,  # 64 GPUs and /proc/meminfo five times a second are 600 lines
    frames_burst=20_000.0,
    bytes_per_s=1.0 * (1 << 20),
    bytes_burst=8.0 * (1 << 20),
    max_line_bytes=4096,  # a row has about 300
    line_bytes=64,
)


class SmiStream(BoundedStream):
    """Converts the bytes of the fallback's shell command into frames, as an `ItemStream`."""

    sender = "nvidia-smi"
    unit = "line"

    def __init__(self, nonce: str, interval_s: float, python: str | None) -> None:
        """Create a stream that expects the start marker with this nonce; other arguments as for `SmiNode`."""
        super().__init__(nonce, LIMITS)
        self._interval_s = interval_s
        self._python = python
        self._node: SmiNode | None = None
        self._frames = TokenBucket(FRAMES_PER_S, FRAMES_BURST)

    def _node_at(self, now: float) -> SmiNode:
        """Return the node's state; the first call creates it, with `now` as the time of the start marker."""
        if self._node is None:
            self._node = SmiNode(self._interval_s, self._python, now)
        return self._node

    def frames_of(self, line: bytes, now: float) -> Iterator[AnyFrame]:
        text = plain(line.decode("utf-8", "replace").strip())[:MAX_LINE_CHARACTERS]
        refused = self._node_at(now).take(text, now)
        if refused is not None:
            self._refused.add(refused)
        yield from ()

    def frames_after(self, now: float) -> Iterator[AnyFrame]:
        if self._frames.spend(1, now):
            yield from filter(None, map(self._checked, self._node_at(now).frames(now)))

    def _checked(self, frame: AnyFrame) -> AnyFrame | None:
        """Return a frame if its values are within an agent's limits; else None, and count it as refused."""
        try:
            return decode(encode(frame))
        except FrameError as error:
            self._refused.add(str(error))
            return None
