"""Selects the message size of a pair: long enough to be measured, short enough for many pairs. Pure."""

from __future__ import annotations

from msgspec import Struct

MIB = 1 << 20
TRIAL_BYTES = 2 * MIB
"""Size of the trial message: eight times the burst of a usual token bucket (256 kb).

A message that fits into the burst looks fast.
"""
LARGEST_BYTES = {"gloo": 32 * MIB, "nccl": 256 * MIB}
MESSAGE_S = 0.06
"""Target duration of one message in seconds, at the rate of the trial."""
WAY_S = (0.08, 0.25)
"""Minimum and maximum seconds for one direction of a round, without connecting."""
ITERATIONS = (3, 12)


class PairLoad(Struct, frozen=True):
    """The messages of each pair of one link class, equal for all so that their rates can be compared."""

    bytes: int
    iterations: int

    @property
    def alone(self) -> PairLoad:
        """Return this load with twice the iterations (at most 12), for a pair that is measured alone."""
        return PairLoad(self.bytes, min(2 * self.iterations, ITERATIONS[1]))


def load_for(rate_bps: float | None, way_s: float, backend: str) -> PairLoad:
    """Return the load for links of this rate.

    Args:
        rate_bps: Bytes per second of the median link in the trial; None if the trial has no result.
        way_s: Seconds that the budget allows for one direction of one round.
        backend: nccl or gloo.
    """
    rate = rate_bps or TRIAL_BYTES / MESSAGE_S
    message = TRIAL_BYTES
    while message < LARGEST_BYTES[backend] and message * 1.5 / rate < MESSAGE_S:
        message *= 2
    iterations = round(min(max(way_s, WAY_S[0]), WAY_S[1]) * rate / message)
    return PairLoad(message, max(ITERATIONS[0], min(ITERATIONS[1], iterations)))
