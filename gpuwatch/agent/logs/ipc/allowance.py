"""How many findings the log reader reports in a time: what is over waits in its file, and nothing is lost.

The cockpit drops frames beyond 200 a second and hangs up beyond 512 kB of findings a second
(`link/stream/frame_stream.py`), so one log of a job's user could cost the findings of all others, or the
link.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable  # noqa: F401 - used in type comments

FINDINGS_PER_S, FINDINGS_AT_ONCE = 100.0, 500.0
BYTES_PER_S, BYTES_AT_ONCE = 192.0 * 1024, 8.0 * (1 << 20)


class FindingAllowance(object):
    """Two token buckets, of findings and of their bytes; both may be overdrawn by one turn of one file."""

    def __init__(self, clock=time.monotonic):
        # type: (Callable[[], float]) -> None
        self._clock = clock
        self._at = clock()
        self._findings, self._bytes = FINDINGS_AT_ONCE, BYTES_AT_ONCE

    def spend(self, size):
        # type: (int) -> None
        """One finding of so many bytes is reported."""
        self._findings -= 1.0
        self._bytes -= size

    @property
    def used_up(self):
        # type: () -> bool
        """Whether files must wait."""
        now = self._clock()
        passed = max(0.0, now - self._at)
        self._at = now
        self._findings = min(FINDINGS_AT_ONCE, self._findings + passed * FINDINGS_PER_S)
        self._bytes = min(BYTES_AT_ONCE, self._bytes + passed * BYTES_PER_S)
        return self._findings <= 0.0 or self._bytes <= 0.0
