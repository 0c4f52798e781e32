"""Plays a recording: where it is, how fast it goes, which records are due; its clock tells recorded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gpuwatch.clock import SessionClock
from gpuwatch.link.recording.reader import ReadBlock, Recording
from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.seek_records import thinned
from gpuwatch.link.recording.tee import MICRO

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
FOLLOW_EVERY_S = 0.5
"""How often a recording that is still written is asked for more."""
MAX_STEP_S = 1.0
"""Of real time between two calls: a process that was stopped does not leap."""


class Player:
    """`due` yields what is to be taken in; `clock` tells where the recording is."""

    def __init__(self, recording: Recording, real: Callable[[], float] = time.monotonic) -> None:
        """Stand at the beginning, playing at 1x.

        Args:
            recording: What is played.
            real: Monotonic seconds of this machine.
        """
        self.recording = recording
        self._real = real
        self.speed = 1.0
        self.playing = True
        self.position = recording.first
        """Microseconds of recorded time."""
        self.last = recording.last
        self.clock = SessionClock(
            lambda: self.position / MICRO, lambda: (self.position + self._shift) / MICRO
        )
        self.seeks = 0
        """How often everything that was known is void: the records of a key frame come next."""
        self._shift = recording.wall_shift(self.position)
        self._before = real()
        self._held_at = self.position
        """Where the last `advance` began."""
        self._asked_at = real()
        self._waiting: list[StreamRecord] = []
        """Of the block that is under way, the next one last."""
        self._block = 0
        self._blocks: Iterator[ReadBlock] = iter(())
        self.seek(self.position)

    @property
    def at_end(self) -> bool:
        """Whether everything that is recorded so far was played."""
        return self.position >= self.last

    def seek(self, at: int) -> None:
        """Go to a moment: what is due next begins with a key frame."""
        self.last = self.recording.last
        self.position = min(max(at, self.recording.first), self.last)
        _, self._block, records = self.recording.key_frame(self.position)
        self._blocks = self.recording.blocks(self._block)
        behind: list[StreamRecord] = []
        while (not behind or behind[-1].at <= self.position) and self._next_block():
            behind.extend(reversed(self._waiting))
        later = next((n for n, one in enumerate(behind) if one.at > self.position), len(behind))
        self._waiting = [*records, *thinned(behind[:later], self.position), *behind[later:]][::-1]
        self._shift = self.recording.wall_shift(self.position)
        self._before = self._real()
        self.seeks += 1

    def play(self, speed: float | None = None) -> None:
        """Go on, at another speed where one is given."""
        self._before = self._real()
        self.playing = True
        self.speed = self.speed if speed is None else speed

    def pause(self) -> None:
        """Stand still."""
        self.playing = False

    def advance(self) -> None:
        """Move the position by the real time since the last call."""
        now = self._real()
        self._held_at = self.position
        passed, self._before = min(MAX_STEP_S, now - self._before), now
        if not self.playing:
            return
        if self.at_end and now >= self._asked_at + FOLLOW_EVERY_S:
            self._asked_at, self.last = now, self.recording.last
        self.position = min(self.last, self.position + round(passed * self.speed * MICRO))

    def skip(self, micros: int) -> None:
        """Move on by so much at once; everything in between comes due."""
        self.last = self.recording.last
        self.position = min(self.last, self.position + micros)

    def hold(self, at: int) -> None:
        """Be late: the records after this moment are taken in with the next call."""
        self.position = max(self._held_at, min(self.position, at))

    def due(self) -> Iterator[StreamRecord]:
        """The records up to the position, oldest first; stop anywhere, the rest comes with the next call."""
        while True:
            while self._waiting and self._waiting[-1].at <= self.position:
                yield self._waiting.pop()
            if self._waiting or not self._next_block():
                return

    def _next_block(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            self._blocks = self.recording.blocks(self._block)
            block = next(self._blocks, None)
            if block is None:
                return False
        self._block, self._shift = block.id, block.wall
        self._waiting = list(self.recording.records(block))[::-1]
        return True
