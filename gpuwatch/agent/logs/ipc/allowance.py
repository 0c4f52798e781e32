"""Limits the rate of the log reader's findings: those over the limit wait in their file; none is lost.

The cockpit drops frames beyond 200 a second and closes the link beyond 512 kB of findings a second
(`link/stream/frame_stream.py`), so one log of a job's user could suppress the findings of all others, or cost
the link.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

FINDINGS_PER_S, FINDINGS_AT_ONCE = 100.0, 500.0
BYTES_PER_S, BYTES_AT_ONCE = 192.0 * 1024, 8.0 * (1 << 20)


class FindingAllowance(object):
    """The rate limits of findings and of their bytes; one turn of one file may exceed them."""

    def __init__(self, clock: "Callable[[], float]" = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._findings, self._bytes = FINDINGS_AT_ONCE, BYTES_AT_ONCE

    def spend(self, size: int) -> None:
        """Count a finding of `size` bytes against the limits."""
        self._findings -= 1.0
        self._bytes -= size

    @property
    def used_up(self) -> bool:
        """Return True if the rate limit of findings or of their bytes is reached, so that files must wait."""
        now = self._clock()
        passed = max(0.0, now - self._at)
        self._at = now
        self._findings = min(FINDINGS_AT_ONCE, self._findings + passed * FINDINGS_PER_S)
        self._bytes = min(BYTES_AT_ONCE, self._bytes + passed * BYTES_PER_S)
        return self._findings <= 0.0 or self._bytes <= 0.0
