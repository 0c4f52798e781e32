"""Finds the known word that a misspelt one resembles."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_CHARACTERS = 60
"""Characters of the word that are compared: its cost grows with the square."""


def nearest(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the most similar known word; None: none is similar. `least`: the similarity needed, 0 to 1."""
    return next(iter(difflib.get_close_matches(word[:MAX_CHARACTERS], list(known), 1, least)), None)
