"""Estimates how long a backtracking search may take, from the parsed pattern; nothing is run.

Two causes are distinguished. A repeated part that can match one text in two ways doubles the work with every
character: it is found in the position automaton (Glushkov) of the repeated part, if a pair of positions that
reads the same characters leaves the diagonal and returns. Consecutive repeats over the same characters
multiply: their number, and what must be between them, gives the power of the line's length.

Examples: `(a|aa)+b` is refused because of the first cause, `[0-9]+[0-9]+[0-9]+x` because of the second.
`[0-9]+x` is accepted: it takes at most 8 million steps on a line of 4,096 characters.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gpuwatch.rules.compiling.check import (
    UNBOUNDED_REPEAT,
    PatternError,
    characters_of,
    op,
    parsed,
)
from gpuwatch.rules.compiling.choices import ways
from gpuwatch.rules.compiling.pattern_parts import MAX_COPIES, REPEATS, is_folded, readable, readable_in
from gpuwatch.rules.compiling.repeat_automaton import check_repeats

WINDOW_CHARS = 4096
"""Number of characters of a line that are searched (`agent/logs/matching/matcher.py`)."""
MAX_STEPS = 2e9
"""Maximum estimated steps of a search of one window: some seconds of CPU time at worst."""
MAX_WAYS = 1e9
"""Maximum estimated ways to match one text; the built-in packs reach 6e8, for prefixes of 60 characters."""
LARGE_REPEAT = 200
"""A repeat with at least this many repetitions shares the window with the others.

Shorter ones are a constant factor.
"""
MAX_FACTORS = 50
"""A pattern with more repeats that share a stretch is refused, without considering their order."""


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that is invalid, or whose search of a line may never end.

    Raises:
        PatternError: With the reason.
    """
    tree, folded = checked_tree(pattern)
    if estimated_steps(tree, folded=folded) > MAX_STEPS:
        raise PatternError(
            "repeats that follow each other can match one text, so matching a long line may never end. Bound "
            "them ([^ ]{0,80} for .*), or put a character between that they cannot match"
        )
    if ways(tree, folded=folded) > MAX_WAYS:
        raise PatternError(
            "its optional parts and alternatives match one text in many ways, so matching a long line may "
            "never end. Use fewer of them, or ones that begin with different characters"
        )


def checked_tree(pattern: str, *, ignore_case: bool = False) -> tuple[Any, bool]:
    """Return the parse tree of a pattern, and True if it ignores case, by itself or by `ignore_case`.

    Raises:
        PatternError: It is no regular expression, or the work doubles with every character of a line.
    """
    tree = parsed(pattern)
    try:
        folded = ignore_case or bool(re.compile(pattern).flags & re.IGNORECASE)
    except re.error as error:
        raise PatternError(f"not a regular expression: {error.msg}", error.pos) from None
    check_repeats(tree, folded=folded)
    return tree, folded


# ----------------------------------------------------------------- repeats that follow each other


class _Element(Struct, frozen=True):
    """One element of a pattern's sequence: text of limited length, or a repeat."""

    reads: int
    """The characters that the element can match, as bits."""
    least: int
    most: float
    """Maximum repetitions of the element; 0 if it is no repeat."""
    not_behind: int = 0
    """A condition: the previous character is none of these bits."""


@lru_cache(maxsize=4096)
def _bits(characters: frozenset[int]) -> int:
    return sum(1 << each for each in characters)


_ALL_BITS = _bits(frozenset(range(257)))


def estimated_steps(tree: Any, *, folded: bool, window: int = WINDOW_CHARS) -> float:
    """Return the estimated worst-case steps of a search of a window of this many characters.

    `folded`: case is ignored.
    """
    return max(_steps(path, window) for path in _paths(tree, folded=folded))


def _paths(tree: Any, *, folded: bool) -> list[list[_Element]]:
    """Return the sequences of elements of a pattern, one for each choice among its alternatives.

    Of more than `MAX_COPIES` sequences only the most expensive one is kept.
    """
    paths: list[list[_Element]] = [[]]
    for code, argument in tree:
        continued = _expanded(code, argument, folded=folded)
        paths = [path + more for path in paths for more in continued]
        if len(paths) > MAX_COPIES:
            paths = [max(paths, key=_steps)]
    return paths


def _expanded(code: Any, argument: Any, *, folded: bool) -> list[list[_Element]]:
    if code is op.SUBPATTERN:
        return _paths(argument[3], folded=is_folded(argument, folded=folded))
    if code is op.BRANCH:
        return [path for branch in argument[1] for path in _paths(branch, folded=folded)]
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return _conditions(code, argument, folded=folded)
    if code in REPEATS:
        low, high, body = argument
        reads = _bits(readable_in(body, folded=folded))
        least = low * body.getwidth()[0]
        if high >= UNBOUNDED_REPEAT and low != high:
            return [[_Element(reads, least, high * max(1, body.getwidth()[1]))]]
        paths = _paths(body, folded=folded)
        if high == 1:
            return [*([] if low else [[]]), *paths]
        varying = [path for path in paths if any(each.most for each in path)]
        if varying:
            return [max(varying, key=_steps) * min(high, UNBOUNDED_REPEAT)]
        return [[_Element(reads, least, 0 if low == high else high)]]
    # a back-reference compares as many characters as its group has matched
    least, most = (0, math.inf) if code is op.GROUPREF else (1, 0)
    return [[_Element(_bits(readable(code, argument, folded=folded)), least, most)]]


def _conditions(code: Any, argument: Any, *, folded: bool) -> list[list[_Element]]:
    """Return the sequences of elements that stand for an anchor or a lookaround.

    Lookahead: the empty one, and one per alternative. Lookbehind: the empty one; if negative, one element of
    all that it reads.
    """
    if code is op.AT:
        return [[_anchor(argument)]]
    behind, body = argument
    if behind > 0:
        return [[], *_paths(body, folded=folded)]
    return [[_Element(0, 0, 0, _bits(readable_in(body, folded=folded)))]] if code is op.ASSERT_NOT else [[]]


def _anchor(where: Any) -> _Element:
    if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
        return _Element(0, 0, 0, _ALL_BITS)
    if where is op.AT_BOUNDARY:
        return _Element(0, 0, 0, _bits(characters_of(op.IN, [(op.CATEGORY, op.CATEGORY_WORD)])))
    return _Element(0, 0, 0)


def _steps(path: list[_Element], window: int = WINDOW_CHARS) -> float:
    """Return the estimated steps of a search for a sequence of elements.

    It is the largest product of the repetitions of repeats that can share a stretch of text, times the
    window's length.
    """
    path = [_Element(_ALL_BITS, 0, window), *path]
    best: dict[int, tuple[float, int]] = {0: (float(window), 1)}
    """Index of a repeat -> the product up to it, and the number of its factors that share the window."""
    for index, element in enumerate(path):
        if not element.most or not index:
            continue
        most = min(window, element.most)
        best[index] = (most, 1)
        for earlier, (steps, count) in list(best.items()):
            period = _period(path, earlier, index) if earlier < index else 0
            if period:
                more = most >= LARGE_REPEAT
                best[index] = max(best[index], (steps * most / period, count + more))
    return max(steps / math.factorial(min(count, MAX_FACTORS)) for steps, count in best.values())


def _period(path: list[_Element], earlier: int, later: int) -> int:
    """Return the fewest characters between two repeats that can share a stretch of text; 0: they cannot.

    At least 1, also for adjacent repeats.
    """
    both = path[earlier].reads & path[later].reads
    period = 0
    if not both:
        return 0
    for at in range(earlier + 1, later):
        element = path[at]
        if element.least and not element.reads & both:
            return 0
        period += element.least
        is_kept_apart = element.not_behind and not path[later].reads & ~element.not_behind
        if is_kept_apart and not any(each.least for each in path[at + 1 : later]):
            return 0
    return max(1, period)
