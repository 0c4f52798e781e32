"""Plays a recording: position, speed, and due records; its clock shows recorded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gpuwatch.clock import SessionClock
from gpuwatch.link.recording.playback.seek_records import thinned
from gpuwatch.link.recording.reader import ReadBlock, Recording
from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.recording.tee import MICRO

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
FOLLOW_EVERY_S = 0.5
"""Seconds between checks for new data in a growing recording."""
MAX_STEP_S = 1.0
"""Most real time per step, so that a stopped process does not jump."""


class Player:
    """Plays a recording. `due` yields the records to apply; `clock` returns the position as time."""

    def __init__(self, recording: Recording, real: Callable[[], float] = time.monotonic) -> None:
        """Start at the beginning of the recording, playing at 1x.

        Args:
            recording: The recording that is played.
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
        """Number of seeks; each makes the previous state invalid, and a key frame follows."""
        self._shift = recording.wall_shift(self.position)
        self._before = real()
        self._held_at = self.position
        """Position at the start of the last `advance`."""
        self._asked_at = real()
        self._waiting: list[StreamRecord] = []
        """Records of the current block, the next one last."""
        self._block = 0
        self._blocks: Iterator[ReadBlock] = iter(())
        self.seek(self.position)

    @property
    def at_end(self) -> bool:
        """Return True if the position has reached the end of the recording, as it was last read."""
        return self.position >= self.last

    def seek(self, at: int) -> None:
        """Seek to a time (microseconds of recorded time), at most the recording's last.

        The next due records begin with a key frame.
        """
        self.last = self.recording.last
        self.position = min(max(at, self.recording.first), self.last)
        _, self._block, records = self.recording.key_frame(self.position)
        self._blocks = self.recording.blocks(self._block)
        behind: list[StreamRecord] = []
        budget = self.recording.budget()
        while (not behind or behind[-1].at <= self.position) and not budget.is_spent and self._next_block():
            behind.extend(reversed(self._waiting))
            budget.records += len(self._waiting)
        if budget.is_spent:
            self._give_up()
        later = next((n for n, one in enumerate(behind) if one.at > self.position), len(behind))
        self._waiting = [*thinned(records, behind[:later], self.position), *behind[later:]][::-1]
        self._shift = self.recording.wall_shift(self.position)
        self._before = self._real()
        self.seeks += 1

    def give_up(self) -> None:
        """Skip the records up to the position that were not read yet; they count as damaged."""
        later = [one for one in self._waiting if one.at > self.position]
        self._give_up(dropped=len(later) < len(self._waiting))
        self._waiting = later

    def _give_up(self, *, dropped: bool = False) -> None:
        self._block = self.recording.give_up(self._block, self.position, dropped=dropped)
        self._blocks = self.recording.blocks(self._block)

    def play(self, speed: float | None = None) -> None:
        """Resume playing; at another speed if `speed` is not None."""
        self._before = self._real()
        self.playing = True
        self.speed = self.speed if speed is None else speed

    def pause(self) -> None:
        self.playing = False

    def advance(self) -> None:
        """Advance the position by the real time since the last call, times the speed; not while paused.

        At most `MAX_STEP_S` of real time count.
        """
        now = self._real()
        self._held_at = self.position
        passed, self._before = min(MAX_STEP_S, now - self._before), now
        if not self.playing:
            return
        if self.at_end and now >= self._asked_at + FOLLOW_EVERY_S:
            self._asked_at, self.last = now, self.recording.last
        self.position = min(self.last, self.position + round(passed * self.speed * MICRO))

    def skip(self, micros: int) -> None:
        """Advance the position by `micros` microseconds; everything in between becomes due."""
        self.last = self.recording.last
        self.position = min(self.last, self.position + micros)

    def hold(self, at: int) -> None:
        """Move the position back to `at`, but not before its value at the last `advance`.

        Later records become due again with a later call.
        """
        self.position = max(self._held_at, min(self.position, at))

    def due(self) -> Iterator[StreamRecord]:
        """Yield the records up to the position, oldest first; those not consumed are yielded next time."""
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
