"""Numbers in texts of others: `int` raises on more than 4,300 digits, and on digits that are none to it."""

from __future__ import annotations

MAX_DIGITS = 9
"""A longer number counts nothing."""


def whole_number(text: str) -> int | None:
    """A count, an index or a size as others print it; None: it is none."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None
