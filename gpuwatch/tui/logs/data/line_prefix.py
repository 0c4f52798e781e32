"""Finds where the message of a line begins, after times, ranks, levels and source locations."""

from __future__ import annotations

import re

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
_GLOG = r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{3,9} {1,4}\d{1,9} \S{1,160}:\d{1,6}\]"
"""The prefix of glog, which torch's launcher uses: `E1127 23:03:37.889000 2 torch/api.py:1002]`."""
_PART = re.compile(
    r"[ \t]{0,8}(?:\[[^\[\]]{1,120}\]:?|" + "|".join((_GLOG, _STAMP, _CLOCK, _LEVEL)) + r":?|[-|:](?=\s))"
)
_TIME = re.compile(_CLOCK)
MAX_PARTS = 10
PREFIX_CHARS = 240
"""Number of characters of a line in which its prefix is searched."""
MIN_MESSAGE_WIDTH = 8
"""If the text after the prefix is shorter than this, the whole line is the message."""


def message_at(text: str) -> int:
    """Return the index at which the message begins; 0 without a prefix or if the rest is too short."""
    at = 0
    for _ in range(MAX_PARTS):
        found = _PART.match(text, at, PREFIX_CHARS)
        if found is None:
            break
        at = found.end()
    if at == 0:
        return 0  # an indentation is no prefix
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    return at if at and len(text) - at >= MIN_MESSAGE_WIDTH else 0


def short_prefix(prefix: str) -> str:
    """Return the time of day in a prefix as `12:03:11 `; "" if it has none."""
    found = _TIME.search(prefix)
    return f"{found[0][:8]} " if found else ""
