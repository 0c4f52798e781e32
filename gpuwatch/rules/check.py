"""Whether a pattern can be searched with: valid on every Python of a node, and not able to blow up."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from functools import cache, lru_cache
from typing import Any

_NEW = sys.version_info >= (3, 11)
parser = importlib.import_module("re._parser" if _NEW else "sre_parse")
op = importlib.import_module("re._constants" if _NEW else "sre_constants")

ANY_OTHER = 256
"""Stands for all characters from 256 on."""
MANY = 10
"""A quantifier that may repeat this often counts as unbounded."""

_ALL = frozenset(range(257))
_DIGITS = frozenset(range(48, 58))
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
_CATEGORIES = {op.CATEGORY_DIGIT: r"\d", op.CATEGORY_SPACE: r"\s", op.CATEGORY_WORD: r"\w"}
_NEGATED = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}


class PatternError(ValueError):
    """A pattern that is refused; `position` is the character it is wrong at, where that is known."""

    def __init__(self, why: str, position: int | None = None) -> None:
        super().__init__(why)
        self.position = position


@lru_cache(maxsize=256)
def parsed(pattern: str) -> Any:  # noqa: ANN401 - re's own parse tree
    """The parse tree of a pattern.

    Raises:
        PatternError: not a regular expression, or one that old Pythons do not know.
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


def check_pattern(pattern: str) -> None:
    """Refuse a pattern whose search may take for ever.

    Two shapes do that: a repeated part that can itself repeat over the same characters, and a repeated choice
    whose alternatives can match the same text.

    Raises:
        PatternError: with the reason.
    """
    tree = parsed(pattern)
    try:
        re.compile(pattern)
    except re.error as error:
        raise PatternError(f"not a regular expression: {error.msg}", error.pos) from None
    _no_blow_up(tree)


def treats_digits_alike(pattern: str) -> bool:
    """Whether a match stays one when digits of the line become other digits."""
    return _alike(parsed(pattern))


def _alike(tree: Any) -> bool:  # noqa: ANN401
    for code, argument in tree:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN):
            digits = characters_of(code, argument) & _DIGITS
            if digits and digits != _DIGITS:
                return False
        elif code in (op.GROUPREF, op.GROUPREF_EXISTS) or not all(map(_alike, _inner(code, argument))):
            return False
    return True


def _old_enough(tree: Any) -> None:  # noqa: ANN401
    new = [getattr(op, name) for name in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT") if hasattr(op, name)]
    for code, argument in tree:
        if code in new:
            raise PatternError(
                "atomic groups and possessive quantifiers need Python 3.11; nodes may have 3.6"
            )
        for inner in _inner(code, argument):
            _old_enough(inner)


def _inner(code: Any, argument: Any) -> list[Any]:  # noqa: ANN401
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


def _no_blow_up(tree: Any) -> None:  # noqa: ANN401
    for code, argument in tree:
        if code in _REPEATS and argument[1] >= MANY:
            _check_repeated(argument[2])
        for inner in _inner(code, argument):
            _no_blow_up(inner)


def _check_repeated(body: Any) -> None:  # noqa: ANN401
    for path in _flat(body):
        for index, (code, argument) in enumerate(path):
            rest = path[:index] + path[index + 1 :]
            if code in _REPEATS and argument[1] >= MANY:
                inside = _characters(argument[2])
                if not any(_least(*each) and not inside & characters_of(*each) for each in rest):
                    raise PatternError(
                        "a repeated group repeats the same characters inside, so a long line may never end. "
                        "Repeat only one of them, or put a character between that the inner part cannot match"
                    )
            if code is op.BRANCH and _overlap(argument[1]):
                raise PatternError(
                    "alternatives under a repetition can match the same text: a long line may never end. "
                    "Make them begin differently, or use a character class"
                )


def _flat(body: Any) -> list[list[tuple[Any, Any]]]:  # noqa: ANN401
    """The elements of a sequence with groups opened; one path, a choice stays one element of it."""
    path: list[tuple[Any, Any]] = []
    paths = [path]
    for code, argument in body:
        if code is op.SUBPATTERN:
            path.extend(_flat(argument[3])[0])
        else:
            path.append((code, argument))
            if code is op.BRANCH:
                for branch in argument[1]:
                    paths.extend(_flat(branch))
    return paths


def _overlap(branches: list[Any]) -> bool:
    for index, one in enumerate(branches):
        for other in branches[index + 1 :]:
            if _same_start(_flat(one)[0], _flat(other)[0]):
                return True
    return False


def _same_start(one: list[tuple[Any, Any]], other: list[tuple[Any, Any]]) -> bool:
    for (code, argument), (code2, argument2) in zip(one, other, strict=False):
        if not _least(code, argument) or not _least(code2, argument2):
            return True
        if not characters_of(code, argument) & characters_of(code2, argument2):
            return False
        if code in _REPEATS or code2 in _REPEATS:
            return True
    return True


def _least(code: Any, argument: Any) -> int:  # noqa: ANN401
    if code in _REPEATS:
        return int(argument[0] * max(1, argument[2].getwidth()[0]))
    if code is op.BRANCH:
        return min(int(branch.getwidth()[0]) for branch in argument[1])
    return int(code not in (op.AT, op.ASSERT, op.ASSERT_NOT, op.GROUPREF))


def _characters(tree: Any) -> frozenset[int]:  # noqa: ANN401
    return frozenset().union(*(characters_of(code, argument) for code, argument in tree))


def characters_of(code: Any, argument: Any) -> frozenset[int]:  # noqa: ANN401
    """The characters that an element can match, all of a sequence's together."""
    if code is op.LITERAL:
        return frozenset({min(argument, ANY_OTHER)})
    if code is op.NOT_LITERAL:
        return _ALL - {argument}
    if code is op.ANY:
        return _ALL - {10}
    if code is op.IN:
        return _class(argument)
    inner = _inner(code, argument)
    if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return frozenset()
    return frozenset().union(*(_characters(each) for each in inner)) if inner else _ALL


def _class(items: Any) -> frozenset[int]:  # noqa: ANN401
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
    return _ALL - found if negated else frozenset(found)


@cache
def _category(category: Any) -> frozenset[int]:  # noqa: ANN401
    if category in _NEGATED:
        return _ALL - _category(_NEGATED[category]) | {ANY_OTHER}
    found = frozenset(c for c in range(256) if re.match(_CATEGORIES[category], chr(c)))
    return found | {ANY_OTHER} if category is op.CATEGORY_WORD else found
