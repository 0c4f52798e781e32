"""Divides the work of a frame into slices, between which keys are handled and the screen is painted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from time import monotonic, thread_time

from gpuwatch.fleet.stepwise import Steps

SLICE_S = 0.01
"""Seconds of work after which waiting keys are handled."""
IDLE_S, MAX_TURNS = 3e-5, 100
"""CPU seconds below which a turn of the event loop had nothing else to do, and most turns between two slices.

A key takes some turns, a new screen dozens.
"""
INPUT_S, PAUSE_S = 0.06, 0.02
"""Seconds after a key in which the work pauses between two slices, and length of such a pause.

What the key has changed is painted meanwhile.
A key that is held down leaves a third of the time to the work.
"""


class FrameSlices:
    """Runs the work of one frame after the other: at once, or in slices as a task of the event loop."""

    def __init__(self, frame: Callable[[], Steps[None]]) -> None:
        """Create the runner. `frame` returns the steps of a new frame."""
        self._frame = frame
        self._steps: Steps[None] | None = None
        """The frame in progress."""
        self._input_at = -inf
        self.cpu_s = 0.0
        """CPU time (seconds) of all frames so far."""

    def note_input(self) -> None:
        """Note that a key was pressed or the mouse used."""
        self._input_at = monotonic()

    def run(self) -> None:
        """Finish the frame in progress, if there is one, and run another."""
        if self._steps is not None:
            self._advance(self._steps, inf)
        self._advance(self._begin(), inf)

    async def run_between_keys(self) -> None:
        """Run the frame in progress, else a new one, and wait between its slices.

        Ends early if `run` finishes the frame meanwhile.
        """
        steps = self._steps or self._begin()
        while self._steps is steps and not self._advance(steps, SLICE_S):
            await _others_done()
            if monotonic() - self._input_at < INPUT_S:
                await asyncio.sleep(PAUSE_S)

    def _begin(self) -> Steps[None]:
        self._steps = self._frame()
        return self._steps

    def _advance(self, steps: Steps[None], seconds: float) -> bool:
        """Run steps for at most `seconds`; return True if none is left."""
        until, cpu = monotonic() + seconds, thread_time()
        try:
            for _ in steps:
                if monotonic() >= until:
                    return False
        finally:
            self.cpu_s += thread_time() - cpu
        self._steps = None
        return True


async def _others_done() -> None:
    """Wait until the other tasks of the event loop have nothing to do, or had many turns."""
    for _ in range(MAX_TURNS):
        began = thread_time()
        await asyncio.sleep(0)
        if thread_time() - began < IDLE_S:
            return
