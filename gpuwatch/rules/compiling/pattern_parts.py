"""Parts of a parsed pattern: repeats, case, and the characters that a part can match."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from gpuwatch.rules.compiling.check import (
    ANY_OTHER,
    characters_of,
    op,
)

MAX_COPIES = 64
REPEATS = tuple(
    getattr(op, name) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") if hasattr(op, name)
)


# ----------------------------------------------------------------- characters


def is_folded(argument: Any, *, folded: bool) -> bool:
    """Return True if a group ignores case.

    `argument`: the group in the parsed pattern; `folded`: True if what encloses the group ignores case.
    """
    add, remove = argument[1], argument[2]
    return (folded or bool(add & re.IGNORECASE)) and not remove & re.IGNORECASE


@lru_cache(maxsize=4096)
def _with_case(reads: frozenset[int]) -> frozenset[int]:
    letters = {chr(each) for each in reads if each < ANY_OTHER and chr(each).isalpha()}
    if not letters:
        return reads
    other = {
        ord(each) for letter in letters for each in letter.lower() + letter.upper() if ord(each) < ANY_OTHER
    }
    return reads | other | {ANY_OTHER}  # some letters fold with one beyond Latin-1: k and the Kelvin sign


def readable(code: Any, argument: Any, *, folded: bool) -> frozenset[int]:
    """Return the codes of the characters that an element can match; `folded`: in either case."""
    found = characters_of(code, argument)
    return _with_case(found) if folded else found


def readable_in(tree: Any, *, folded: bool) -> frozenset[int]:
    """Return the codes of the characters that any element of a sequence can match.

    `folded`: case is ignored.
    """
    return frozenset().union(*(readable(code, argument, folded=folded) for code, argument in tree))
