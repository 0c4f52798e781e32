"""Rates of counters, with the digits that a measured rate has: what travels every second is short."""

_COUNTER_RANGE = 1 << 64
_COUNTER_MARGIN = 1 << 48
"""A counter this close to its range has run over when it is small again."""


def short(value):
    # type: (float) -> float
    """A measured value to four significant digits, 0.05 % at most from itself; a float has 17."""
    return float("%.4g" % value)


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
        if grown < 0 and before >= _COUNTER_RANGE - _COUNTER_MARGIN and value < _COUNTER_MARGIN:
            grown += _COUNTER_RANGE
        if grown < 0:
            return None
        return short(grown * 1e6 / (at_us - before_us))
