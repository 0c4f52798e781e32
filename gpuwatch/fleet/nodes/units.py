"""Kinds of numbers: their unit, their width on the screen, and the meaning of `k`, `M`, `G`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gpuwatch.number_text import UNKNOWN, scaled_text, seconds_text


class Quantity(Struct, frozen=True):
    """A kind of number: its unit, its width in terminal cells, and its text."""

    unit: str
    width: int
    kilo: int
    """The factor of `k`: 1000, or 1024 for memory."""
    text: Callable[[float], str]

    def format(self, value: float | None) -> str:
        """Return the value right-aligned in `width` cells; a dash if unknown."""
        return (UNKNOWN if value is None else self.text(value)).rjust(self.width)


PERCENT = Quantity("%", 4, 1000, lambda value: f"{min(value, 999):.0f}%")
MEMORY = Quantity("B", 5, 1024, lambda value: scaled_text(value, 1024))
RATE = Quantity("B/s", 5, 1000, lambda value: scaled_text(value, 1000))
CELSIUS = Quantity("C", 4, 1000, lambda value: f"{min(value, 999):.0f}C")
WATTS = Quantity("W", 5, 1000, lambda value: f"{min(value, 9999):.0f}W")
MEGAHERTZ = Quantity("MHz", 4, 1000, lambda value: f"{min(value, 9999):.0f}")
COUNT = Quantity("", 5, 1000, lambda value: scaled_text(value, 1000))
LOAD = Quantity("", 5, 1000, lambda value: f"{value:.1f}" if value < 999 else f"{min(value, 99_999):.0f}")
SECONDS = Quantity("s", 4, 1000, seconds_text)
