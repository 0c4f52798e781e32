"""Reads the history before a seek target from the recording for the plots, a few blocks per poll."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node_limits import TooManyError
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.recording.reader import ReadBlock, Recording
from gpuwatch.link.recording.records import StreamRecord, content
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.wire import FrameError

PAST_S = 900
"""Seconds of history in one-second resolution."""
NODES_PER_S, MAX_APART_S = 6, 10
"""Limits of reading: with more nodes, only every n-th block is read.

Reading a block of 64 nodes takes about 10 ms. `MAX_APART_S`: seconds between two blocks that are read.
"""
SLICE_S = 0.02
"""CPU seconds that one poll may read."""
BLOCK_SLACK_S = 2.0
"""Seconds by which a block may be longer than one second, so that the next one begins later."""
STATES = frozenset(("hello", "clock", "link", "sample"))
"""Kinds of records that the histories need."""


class PastHistories:
    """Fills the fleet's histories after a seek. Call `begin` at each seek and `step` with each poll."""

    def __init__(self, recording: Recording, plan: Plan, position: Callable[[], int]) -> None:
        """Create the reader of past histories; nothing is read yet.

        Args:
            recording: The recording that is played.
            plan: The plan with the nodes of the recording.
            position: Returns the current position (microseconds of recorded time).
        """
        self._recording = recording
        self._plan = plan
        self._position = position
        self._past = Fleet(plan)
        self._reading: Iterator[None] | None = None
        self._apart_s = min(MAX_APART_S, max(1, len(recording.nodes) // NODES_PER_S))

    @property
    def whole(self) -> bool:
        """True if nothing is left to read."""
        return self._reading is None

    def begin(self) -> None:
        """Start reading the history before the current position."""
        self._past = Fleet(self._plan)
        self._reading = self._read(max(self._recording.first, self._position() - PAST_S * MICRO))

    def step(self, fleet: Fleet) -> bool:
        """Continue reading for a time slice.

        Return True in the call that has merged everything into the histories.
        """
        if self._reading is None:
            return False
        until = time.thread_time() + SLICE_S
        for _ in self._reading:
            if time.thread_time() >= until:
                return False
        self._reading = None
        self._give(fleet)
        return True

    def _read(self, start: int) -> Iterator[None]:
        """Read the states at `start` (microseconds), and samples up to the current position.

        Yields after each block that is read. Of blocks that follow each other closely only one is read, but
        near the position all.
        """
        _, number, records = self._recording.key_frame(start)
        for one in records:
            if one.kind in STATES:
                self._take(one)
        before = 0
        for block in self._recording.blocks(number):
            if block.first > self._position():
                return
            near = self._position() - block.first < 2 * self._apart_s * MICRO
            if near or block.first - before >= self._apart_s * MICRO:
                before = block.first
                self._take_block(block)
                yield

    def _take_block(self, block: ReadBlock) -> None:
        for one in self._recording.records(block):
            if one.kind in STATES and one.at <= self._position():
                self._take(one)

    def _take(self, one: StreamRecord) -> None:
        try:
            if one.node in self._recording.nodes:
                name = self._recording.nodes[one.node]
                self._past.apply(Arrival(name, one.at / MICRO, content(one)))
                node = self._past.nodes[name]
                node.interval_s = max(node.interval_s, self._apart_s + BLOCK_SLACK_S)
        except (FrameError, TooManyError, ValueError, LookupError, ArithmeticError, TypeError):
            return  # the session counts a bad record when it is played

    def _give(self, fleet: Fleet) -> None:
        for name, node in fleet.nodes.items():
            past = self._past.nodes[name]
            node.host_history = past.host_history
            node.version += 1
            for uuid, gpu in node.gpus.items():
                if uuid in past.gpus:
                    gpu.history = past.gpus[uuid].history
                    gpu.version += 1
        fleet.version += 1
        self._past = Fleet(self._plan)
