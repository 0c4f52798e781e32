"""Computes rates of counters, rounded to significant digits, since they are sent every second."""

_COUNTER_RANGE = 1 << 64
_COUNTER_MARGIN = 1 << 48
"""A counter this close to its maximum has wrapped if it is small again."""


def short(value: float) -> float:
    """Return a measured value with three significant digits (error at most 0.5 %)."""
    return float("%.3g" % value)


def rate(before: "float | None", after: "float | None", seconds: float) -> "float | None":
    """Return the mean rate per second between two readings of a cumulative counter, with three digits.

    None after a reset, without new time, or without one of the values. A 64-bit counter that wraps continues;
    any other decrease is a reset.
    """
    if before is None or after is None or seconds <= 0:
        return None
    grown = after - before
    if grown < 0 and before >= _COUNTER_RANGE - _COUNTER_MARGIN and after < _COUNTER_MARGIN:
        grown += _COUNTER_RANGE
    return None if grown < 0 else short(grown / seconds)


class Rate(object):
    """Computes the rate of one cumulative counter, in units per second."""

    def __init__(self) -> None:
        self._value: float | None = None
        self._at_us = 0

    def advance(self, value: "float | None", at_us: int) -> "float | None":
        """Return the mean rate since the previous reading, as `rate` does. `at_us`: microseconds."""
        before, before_us = self._value, self._at_us
        self._value, self._at_us = value, at_us
        return rate(before, value, (at_us - before_us) / 1e6)
