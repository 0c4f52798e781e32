"""Parses a pattern as `re` does: whether every Python of a node knows it, and what its parts can match."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from functools import cache, lru_cache
from typing import Any

_HAS_RE_PARSER = sys.version_info >= (3, 11)
parser = importlib.import_module("re._parser" if _HAS_RE_PARSER else "sre_parse")
op = importlib.import_module("re._constants" if _HAS_RE_PARSER else "sre_constants")

ANY_OTHER = 256
"""Represents all characters from 256 on."""
UNBOUNDED_REPEAT = 10
"""A quantifier that may repeat at least this often counts as unbounded."""

_ALL_CHARACTERS = frozenset(range(257))
_DIGITS = frozenset(range(48, 58))
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
_CATEGORIES = {op.CATEGORY_DIGIT: r"\d", op.CATEGORY_SPACE: r"\s", op.CATEGORY_WORD: r"\w"}
_NEGATED = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}


class PatternError(ValueError):
    """Raised for a refused pattern; `position` is the offending character, if known."""

    def __init__(self, why: str, position: int | None = None) -> None:
        super().__init__(why)
        self.position = position


@lru_cache(maxsize=256)
def parsed(pattern: str) -> Any:
    """Return the parse tree of a pattern.

    Raises:
        PatternError: It is no regular expression, or one that old Pythons do not know.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = parser.parse(pattern)
    except re.error as error:
        raise PatternError(f"not a regular expression: {error.msg}", error.pos) from None
    except (Warning, OverflowError, RecursionError) as error:
        raise PatternError(f"not a regular expression: {error}") from None
    _old_enough(tree)
    return tree


@lru_cache(maxsize=4096)
def treats_digits_alike(pattern: str) -> bool:
    """Return True if every line that matches still matches when its digits are other digits."""
    return _alike(parsed(pattern))


def _alike(tree: Any) -> bool:
    for code, argument in tree:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN):
            digits = characters_of(code, argument) & _DIGITS
            if digits and digits != _DIGITS:
                return False
        elif code in (op.GROUPREF, op.GROUPREF_EXISTS) or not all(map(_alike, inner_parts(code, argument))):
            return False
    return True


def _old_enough(tree: Any) -> None:
    new = [getattr(op, name) for name in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT") if hasattr(op, name)]
    for code, argument in tree:
        if code in new:
            raise PatternError(
                "atomic groups and possessive quantifiers need Python 3.11; nodes may have 3.6"
            )
        for inner in inner_parts(code, argument):
            _old_enough(inner)


def inner_parts(code: Any, argument: Any) -> list[Any]:
    """Return the subpatterns (sequences) inside an element of a parse tree, such as a group or a repeat."""
    if code in _REPEATS or getattr(op, "POSSESSIVE_REPEAT", None) is code:
        return [argument[2]]
    if code is op.SUBPATTERN:
        return [argument[3]]
    if code is op.BRANCH:
        return list(argument[1])
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [argument[1]]
    if code is op.GROUPREF_EXISTS:
        return [each for each in argument[1:] if each is not None]
    return []


def _characters(tree: Any) -> frozenset[int]:
    return frozenset().union(*(characters_of(code, argument) for code, argument in tree))


def characters_of(code: Any, argument: Any) -> frozenset[int]:
    """Return the codes of the characters that an element can match; ANY_OTHER stands for all from 256 on.

    For an element with parts, those of all parts together; all for a reference to a group; empty for anchors
    and lookarounds.
    """
    if code is op.LITERAL:
        return frozenset({min(argument, ANY_OTHER)})
    if code is op.NOT_LITERAL:
        return _ALL_CHARACTERS - {argument}
    if code is op.ANY:
        return _ALL_CHARACTERS - {10}
    if code is op.IN:
        return _class(argument)
    inner = inner_parts(code, argument)
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return frozenset()
    return frozenset().union(*(_characters(each) for each in inner)) if inner else _ALL_CHARACTERS


def _class(items: Any) -> frozenset[int]:
    found: set[int] = set()
    negated = False
    for code, argument in items:
        if code is op.NEGATE:
            negated = True
        elif code is op.LITERAL:
            found.add(min(argument, ANY_OTHER))
        elif code is op.RANGE:
            found.update(min(c, ANY_OTHER) for c in range(argument[0], min(argument[1], ANY_OTHER) + 1))
        else:
            found |= _category(argument)
    return _ALL_CHARACTERS - found if negated else frozenset(found)


@cache
def _category(category: Any) -> frozenset[int]:
    if category in _NEGATED:
        return _ALL_CHARACTERS - _category(_NEGATED[category]) | {ANY_OTHER}
    found = frozenset(c for c in range(256) if re.match(_CATEGORIES[category], chr(c)))
    return found | {ANY_OTHER} if category is op.CATEGORY_WORD else found
