"""Counters become rates, by the time stamps that came with them."""

_FULL = 1 << 64
_NEAR_THE_END = 1 << 48


class Rate(object):
    """The rate of one cumulative counter, units a second."""

    def __init__(self):
        # type: () -> None
        self._value = None  # type: float | None
        self._at_us = 0

    def advance(self, value, at_us):
        # type: (float | None, int) -> float | None
        """The mean rate since the reading before; None at first, after a restart, or while time stands still.

        A 64-bit counter that runs over goes on; any other step back is a restart of the counter.
        """
        before, before_us = self._value, self._at_us
        self._value, self._at_us = value, at_us
        if value is None or before is None or at_us <= before_us:
            return None
        grown = value - before
        if grown < 0 and before >= _FULL - _NEAR_THE_END and value < _NEAR_THE_END:
            grown += _FULL
        if grown < 0:
            return None
        return grown * 1e6 / (at_us - before_us)
