"""How many bytes of a file are read and searched in one turn: fewer where its lines are slow to search."""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable  # noqa: F401 - used in type comments

FIRST_BYTES = 8 * 1024
LEAST_BYTES, MOST_BYTES = 4 * 1024, 256 * 1024
AIM_S = 0.02
"""CPU time of a turn: 256 KiB of ordinary lines take 5 ms, 256 KiB of 3,000 findings 1.5 s."""
AIM_FINDINGS = 50
"""Of a turn."""


class StepSize(object):
    """Of one file."""

    def __init__(self, clock=time.process_time):
        # type: (Callable[[], float]) -> None
        self.bytes = FIRST_BYTES
        self.spent_s = 0.0
        """CPU seconds of all turns."""
        self._clock = clock
        self._began = 0.0

    def begin(self):
        # type: () -> None
        """A turn begins."""
        self._began = self._clock()

    def end(self, done, findings):
        # type: (int, int) -> None
        """The turn is over, in which `done` bytes were searched."""
        took = self._clock() - self._began
        self.spent_s += took
        share = max(took / AIM_S, findings / AIM_FINDINGS)
        if share > 1.0:
            self.bytes = max(LEAST_BYTES, min(self.bytes, int(max(done, LEAST_BYTES) / share)))
        elif share < 0.5 and done >= self.bytes:
            self.bytes = min(MOST_BYTES, 2 * self.bytes)
