"""Parses numbers in texts of others: `int` raises on more than 4,300 digits, and on some digit characters."""

from __future__ import annotations

MAX_DIGITS = 9
"""Maximum digits; a longer number is ignored."""


def whole_number(text: str) -> int | None:
    """A count, an index or a size in an external text; None if it is not one."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None
