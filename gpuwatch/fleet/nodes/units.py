"""Kinds of numbers: their unit, their width on the screen, and the meaning of `k`, `M`, `G`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

UNKNOWN = "-"
"""The text of an unknown value; never 0."""


@dataclass(frozen=True)
class Quantity:
    """A kind of number. `text` of a value takes at most `width` cells."""

    unit: str
    width: int
    kilo: int
    """The factor of `k`: 1000, or 1024 for memory."""
    text: Callable[[float], str]

    def format(self, value: float | None) -> str:
        """The value right-aligned in `width` cells; a dash if unknown."""
        return (UNKNOWN if value is None else self.text(value)).rjust(self.width)


def scaled_text(value: float, kilo: int) -> str:
    """At most five cells with a prefix: `0`, `812`, `1.5k`, `79.6G`, `1024T`."""
    size, prefix = float(value), ""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if abs(size) < 999.5 or prefix == "P":
            break
        size /= kilo
    if not prefix or abs(size) >= 99.95:
        return f"{size:.0f}{prefix}"
    return f"{size:.1f}{prefix}"


def seconds_text(value: float) -> str:
    """At most four cells: `0.4s`, `12s`, `3m`, `5h`, `2d`."""
    if value < 9.95:
        return f"{value:.1f}s"
    for limit, size, letter in ((99.5, 1, "s"), (5970, 60, "m"), (356_400, 3600, "h")):
        if value < limit:
            return f"{value / size:.0f}{letter}"
    return f"{min(value / 86_400, 999):.0f}d"


PERCENT = Quantity("%", 4, 1000, lambda value: f"{min(value, 999):.0f}%")
MEMORY = Quantity("B", 5, 1024, lambda value: scaled_text(value, 1024))
RATE = Quantity("B/s", 5, 1000, lambda value: scaled_text(value, 1000))
CELSIUS = Quantity("C", 4, 1000, lambda value: f"{min(value, 999):.0f}C")
WATTS = Quantity("W", 5, 1000, lambda value: f"{min(value, 9999):.0f}W")
MEGAHERTZ = Quantity("MHz", 4, 1000, lambda value: f"{min(value, 9999):.0f}")
COUNT = Quantity("", 5, 1000, lambda value: scaled_text(value, 1000))
LOAD = Quantity("", 5, 1000, lambda value: f"{value:.1f}" if value < 999 else f"{min(value, 99_999):.0f}")
SECONDS = Quantity("s", 4, 1000, seconds_text)
