"""Computes rates of counters, rounded to significant digits, since they are sent every second."""

_COUNTER_RANGE = 1 << 64
_COUNTER_MARGIN = 1 << 48
"""A counter this close to its maximum has wrapped if it is small again."""


def short(value: float) -> float:
    """Return a measured value with three significant digits (error at most 0.5 %)."""
    return float("%.3g" % value)


class Rate(object):
    """Computes the rate of one cumulative counter, in units per second."""

    def __init__(self) -> None:
        self._value: float | None = None
        self._at_us = 0

    def advance(self, value: "float | None", at_us: int) -> "float | None":
        """Return the mean rate since the previous reading; None at first, after a reset, or without new time.

        None also without a value. A 64-bit counter that wraps continues; any other decrease is a reset.
        `at_us`: microseconds.
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
