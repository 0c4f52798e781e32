"""Text that would steer a terminal, and the search for what is left of it."""

from __future__ import annotations

import unicodedata

EVIL = "x\x1b]52;c;ZXZpbA==\x07\x1b[31m\x9b31m\u202ey\udc9b"


def steering(text: str) -> list[str]:
    """Characters that a terminal obeys or that turn the direction of text."""
    return [each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Cs") and each not in "\n\t"]
