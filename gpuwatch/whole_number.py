"""Parses numbers in external text: `int` raises on more than 4,300 digits, and on some digit characters."""

from __future__ import annotations

MAX_DIGITS = 9
"""Maximum digits; a longer number is ignored."""
RANK_DIGITS = 6
"""Maximum digits of a rank or a number of ranks."""
SECONDS_OF = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0,
}  # fmt: skip
"""Unit of time -> its seconds."""


def whole_number(text: str, digits: int = MAX_DIGITS) -> int | None:
    """Return the value of a text of at most `digits` decimal digits, else None (also with a sign)."""
    return int(text) if text.isdecimal() and len(text) <= digits else None
