"""Parses numbers in external text: `int` raises on more than 4,300 digits, and on some digit characters."""

from __future__ import annotations

MAX_DIGITS = 9
"""Maximum digits; a longer number is ignored."""


def whole_number(text: str) -> int | None:
    """Return the value of a text of at most nine decimal digits, else None (also with a sign or a space)."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None
