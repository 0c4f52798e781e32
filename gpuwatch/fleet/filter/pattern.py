"""Compiles the regular expressions that a user types into the filter and refuses the expensive ones.

Python's matcher backtracks: a repeat inside a repeat takes exponential time, n repeats in a row the n-th
power of the text's length, and choices multiply. All three are limited before the pattern is used: the most
expensive accepted pattern takes 0.1 s on the worst text of 200 characters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_PATTERN_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 200
"""Only the first characters of a text, up to this number, are searched."""
MAX_REPEATS = 2
MAX_CHOICES = (512, 64, 8)
"""Maximum number of branch combinations in a pattern with 0, 1 or 2 repeats."""


class FilterPatternError(ValueError):
    """Raised for a pattern that is invalid or too expensive; the message states which."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a cached, case-insensitive search for the pattern in the first 200 characters of a text.

    Raises:
        FilterPatternError: not a regular expression, or one that could take too long.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise FilterPatternError(f"a pattern of {len(pattern)} characters; at most {MAX_PATTERN_CHARACTERS}")
    pattern = _ENDS.sub("", pattern)
    _refuse_dear(pattern)
    try:
        found = re.compile(pattern, re.IGNORECASE).search
    except (re.error, OverflowError, RecursionError) as error:
        raise FilterPatternError(f"not a regular expression: {error}") from error

    @functools.lru_cache(maxsize=4096)
    def matches(text: str) -> bool:
        return found(text[:MAX_TEXT_CHARACTERS]) is not None

    return matches


_ENDS = re.compile(r"^(?:\.\*)+|(?<!\\)(?:\.\*)+$")
"""The parts of a pattern that a search does not need: `.*` at either end."""
_TOKEN = re.compile(
    r"\\(?P<reference>[1-9])|\\."  # a back-reference, any other escape
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]"  # a class
    r"|\(\?(?P<special>[^:])"  # look-around, conditions, named groups, flags
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))"
    r"|(?P<repeat>[*+]|\{[\d,]*\})[?+]?|(?P<maybe>\?)"
    r"|(?P<or>\|)|.",
    re.DOTALL,
)


@dataclass
class _Group:
    """An open group of a pattern.

    Its number of alternatives, and True if it contains anything that can vary.
    """

    alternatives: int = 1
    varies: bool = False


def _refuse_dear(pattern: str) -> None:
    repeats, choices, closed_varies = 0, 1, False
    groups = [_Group()]
    for token in _TOKEN.finditer(pattern):
        kind, after_varying = token.lastgroup, closed_varies
        closed_varies = False
        if kind in ("reference", "special"):
            raise FilterPatternError(
                f"{token.group()!r} is not supported: plain groups, classes and repeats only"
            )
        if kind == "open":
            groups.append(_Group())
        elif kind == "close" and len(groups) > 1:
            closed = groups.pop()
            choices *= closed.alternatives
            closed_varies = closed.varies
            groups[-1].varies |= closed.varies
        elif kind == "or":
            groups[-1].alternatives += 1
            groups[-1].varies = True
        elif kind == "maybe":
            choices *= 2
            groups[-1].varies = True
        elif kind == "repeat":
            repeats += 1
            if after_varying:
                raise FilterPatternError(
                    "a repeated group that holds a repeat or a choice could take for ever"
                )
            groups[-1].varies = True
    if repeats > MAX_REPEATS:
        raise FilterPatternError(f"{repeats} repeats could take too long; at most {MAX_REPEATS}")
    if choices > MAX_CHOICES[repeats]:
        raise FilterPatternError("too many choices multiply; use fewer alternatives")
