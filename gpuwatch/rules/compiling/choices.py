"""Counts the ways in which a pattern's optional parts and alternatives can match one text.

A backtracking search tries them all: `a?a?a?b` takes 8 times the steps of `aaab`, and twenty optional parts a
million times. A choice counts only where its parts can match the same characters: of `error|warning` one is
tried to the end at any place, of `a|ab|b` several are. Unbounded repeats are not counted here
(`repeat_automaton`), nor are the lengths of bounded ones (`ambiguity`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from gpuwatch.rules.compiling.check import UNBOUNDED_REPEAT, op
from gpuwatch.rules.compiling.pattern_parts import REPEATS, is_folded, readable, readable_in

COMPARED_CHARS = 12
"""Characters of two alternatives that are compared."""
MOST_COUNTED = 1e12
"""The number of ways at which counting ends; more ways are reported as this number."""

Lead: TypeAlias = tuple[frozenset[int], ...]
"""The codes that each of a part's first characters can have, as far as known."""


def ways(tree: Any, *, folded: bool, after: Lead = ()) -> float:
    """Return in how many ways a pattern can match one text, at worst; at most `MOST_COUNTED`.

    Args:
        tree: The parse tree of the pattern.
        folded: True if case is ignored.
        after: The characters that the text after the pattern can begin with.
    """
    count = 1.0
    for code, argument in reversed(list(tree)):
        count = min(MOST_COUNTED, count * _ways_of(code, argument, folded, after))
        after = _lead(code, argument, folded, after)
    return count


def _ways_of(code: Any, argument: Any, folded: bool, after: Lead) -> float:
    if code is op.SUBPATTERN:
        return ways(argument[3], folded=is_folded(argument, folded=folded), after=after)
    if code is op.BRANCH:
        return _of_alternatives(argument[1], folded, after)
    if code in (op.ASSERT, op.ASSERT_NOT):
        return ways(argument[1], folded=folded)
    if code not in REPEATS:
        return 1.0
    low, high, body = argument
    again = _lead_of(body, folded, after) if high > 1 else after
    inner: float = ways(body, folded=folded, after=again)
    if high >= UNBOUNDED_REPEAT:
        return inner if low == high == 1 else min(MOST_COUNTED, inner * inner)
    if (low, high) == (0, 1):
        return _of_alternatives([body, []], folded, after)
    return min(MOST_COUNTED, inner ** int(high))


def _of_alternatives(parts: Any, folded: bool, after: Lead) -> float:
    """Return the largest sum of ways over alternatives that can begin with the same characters."""
    known = [
        (_lead_of(part, folded, after), ways(part, folded=folded, after=after) if part else 1.0)
        for part in parts
    ]
    return max(sum(each for other, each in known if _is_shared(lead, other)) for lead, _ in known)


def _is_shared(one: Lead, other: Lead) -> bool:
    return all(left & right for left, right in zip(one, other, strict=False))


def _lead_of(tree: Any, folded: bool, after: Lead) -> Lead:
    for code, argument in reversed(list(tree)):
        after = _lead(code, argument, folded, after)
    return after


def _lead(code: Any, argument: Any, folded: bool, after: Lead) -> Lead:
    """Return the characters that an element and what follows it can have at each of the first positions."""
    if code is op.SUBPATTERN:
        return _lead_of(argument[3], is_folded(argument, folded=folded), after)
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return after
    if code is op.BRANCH:
        return _of_several([_lead_of(part, folded, after) for part in argument[1]])
    if code in (op.GROUPREF, op.GROUPREF_EXISTS):
        return ()
    if code not in REPEATS:
        return (readable(code, argument, folded=folded), *after)[:COMPARED_CHARS]
    low, high, body = argument
    if low == high == 1:
        return _lead_of(body, folded, after)
    inner = _lead_of(body, folded, ())[:1] if low else ()
    if not low and body.getwidth()[0]:
        first = _lead_of(body, folded, ())[:1]
        inner = (first[0] | after[0],) if first and after else ()
    is_one = len(body) == 1 and body.getwidth() == (1, 1)
    return (readable_in(body, folded=folded),) * min(low, COMPARED_CHARS) if low and is_one else inner


def _of_several(leads: list[Lead]) -> Lead:
    """Return for each position the character codes that any of several alternatives can have there."""
    return tuple(frozenset().union(*each) for each in zip(*leads, strict=False))
