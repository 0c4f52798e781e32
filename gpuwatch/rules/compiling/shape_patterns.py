r"""Rewrites a rule's pattern for shapes of lines: it matches the shape of every line the rule can match.

A shape is a line without its digits (see `agent.logs.matching.prefilter`). Anchors, look-arounds and word
borders beside digits are dropped, digits may be missing, and a blank may be a tab, which a searched line has
expanded. Shapes with digits or blanks beyond ASCII are left out (`has_other_digits`).

Example: `^\[rank(\d+)\]: (?!x)err.{0,200}` becomes `\[rank\]:[ \t]err`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gpuwatch.rules.compiling.check import op, parsed
from gpuwatch.rules.compiling.literals import BROKEN
from gpuwatch.rules.compiling.pattern_parts import REPEATS, is_folded
from gpuwatch.rules.compiling.shape_parts import (
    BORDER,
    Part,
    Repeat,
    counted,
    escaped,
    has_separator,
    joined_repeat,
    may_begin_blank,
    may_end_blank,
    of_repeat,
    trimmed,
)

BLANK, TAB = 32, 9
CHARACTER_BYTES = 4
"""Maximum bytes of a UTF-8 character."""
_DIGITS = frozenset(b"0123456789")
_HIGH = frozenset(range(128, 256))
_ASCII = frozenset(range(128)) - frozenset(b"\n\r")
_LETTERS = frozenset(b"_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
_EMPTY = (op.AT, op.ASSERT, op.ASSERT_NOT)
"""Pattern elements that match no character: anchors and assertions."""
_CATEGORIES = {
    op.CATEGORY_DIGIT: re.compile(r"\d"),
    op.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    op.CATEGORY_SPACE: re.compile(r"\s"),
    op.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    op.CATEGORY_WORD: re.compile(r"\w"),
    op.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
_ASCII_ONLY = (op.CATEGORY_DIGIT, op.CATEGORY_SPACE)
"""Categories whose characters beyond ASCII no tried shape has."""
OTHER_DIGIT_OR_SPACE = re.compile(
    rb"\xc2[\x85\xa0]|[\xd9\xdb\xdf\xe0\xe1]"
    rb"|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
    rb"|\xea[\x98\xa3\xa4\xa7\xa9\xaf]|\xef\xbc|\xf0(?:[^\x9f]|\x9f\xaf)"
)
"""First bytes of digits and blanks beyond ASCII, which stay in a shape."""


def has_other_digits(shape: bytes) -> bool:
    """Return True if a shape may hold digits or blanks beyond ASCII, for which no pattern is made.

    A shape is a line without its digits.
    """
    return not shape.isascii() and OTHER_DIGIT_OR_SPACE.search(shape) is not None


class ShapePattern(NamedTuple):
    """A regular expression that matches shapes (lines without digits); if `folded`, in lower case."""

    text: bytes
    folded: bool

    def matches(self, shape: bytes) -> bool:
        """Return True if the pattern matches the shape of a line."""
        return re.search(self.text, shape.lower() if self.folded else shape) is not None


@lru_cache(maxsize=8192)
def shape_pattern(pattern: str) -> ShapePattern | None:
    """Return the pattern that matches the shapes of all lines that `pattern` matches.

    None: any shape may match, or only several lines together.
    """
    if any(word in pattern for word in BROKEN):
        return None
    tree = parsed(pattern)
    folded = bool(tree.state.flags & re.IGNORECASE)
    text = _alternatives(list(tree), folded=folded)
    if folded:
        text = _BOTH_CASES.sub(r"\1", text)
    return ShapePattern(text.encode(), folded) if text else None


def _alternatives(items: list[tuple[Any, Any]], *, folded: bool) -> str:
    """Return a pattern for shapes, with one alternative for each of the pattern's alternatives.

    Each begins and ends with a part that it requires; "" if one of them requires none.
    """
    items = _opened(items)
    branches = items[0][1][1] if len(items) == 1 and items[0][0] is op.BRANCH else [items]
    texts = dict.fromkeys("".join(trimmed(_sequence(list(each), folded=folded))) for each in branches)
    if not all(texts):
        return ""
    return next(iter(texts)) if len(texts) == 1 else f"(?:{'|'.join(texts)})"


_BOTH_CASES = re.compile(r"\[[A-Z]([a-z])\]")


def _sequence(items: Sequence[tuple[Any, Any]], *, folded: bool, behind: bool = False) -> list[Part]:
    """Return the parts of the shape pattern of a sequence of regex elements.

    Of adjacent blanks only the first is required: a tab of the line is several blanks in its shape.

    Args:
        items: The elements.
        folded: True if upper and lower case are equal.
        behind: True if the character before the sequence may be a blank.
    """
    parts: list[Part] = []
    for index, (code, argument) in enumerate(items):
        if code is op.AT and argument is op.AT_BOUNDARY and _is_beside_letter(items, index):
            parts.append(Part(BORDER, separates=False))
            continue
        for part in _parts(code, argument, folded=folded, behind=may_end_blank(parts, behind=behind)):
            joined = joined_repeat(parts[-1], part) if parts else None
            if joined is None:
                parts.append(part)
            else:
                parts[-1] = joined
    return parts


def _is_beside_letter(items: Sequence[tuple[Any, Any]], index: int) -> bool:
    """Return True if a word border stands beside a letter for certain, so that shapes have it too."""
    return _has_letter(items[index + 1 :], 0) or _has_letter(items[:index], -1)


def _has_letter(items: Sequence[tuple[Any, Any]], edge: int) -> bool:
    """Return True if the first (`edge` 0) or last (-1) character of a sequence is a letter for certain."""
    reading = [each for each in items if each[0] not in _EMPTY]
    if not reading:
        return False
    code, argument = reading[edge]
    if code in _SINGLE:
        own, high = _bytes_of(code, argument, folded=False)
        return not high and own <= _LETTERS
    if code is op.SUBPATTERN:
        return _has_letter(list(argument[3]), edge)
    if code is op.BRANCH:
        return all(_has_letter(list(each), edge) for each in argument[1])
    return bool(code in REPEATS and argument[0]) and _has_letter(list(argument[2]), edge)


def _parts(code: Any, argument: Any, *, folded: bool, behind: bool) -> list[Part]:
    """Return the parts for one element of a pattern; none for an anchor or a digit, absent from shapes."""
    if code is op.LITERAL and argument > 127 and not folded:
        return [Part("".join(map(escaped, chr(argument).encode())))]
    if code in _SINGLE:
        return _repeated_one(1, 1, *_bytes_of(code, argument, folded=folded), behind=behind)
    if code is op.SUBPATTERN:
        return _sequence(list(argument[3]), folded=is_folded(argument, folded=folded), behind=behind)
    if code is op.BRANCH:
        return [_branches([_sequence(list(each), folded=folded, behind=behind) for each in argument[1]])]
    if code in REPEATS:
        return _repeated(argument[0], argument[1], list(argument[2]), folded=folded, behind=behind)
    if code is getattr(op, "ATOMIC_GROUP", None):
        return _sequence(list(argument), folded=folded, behind=behind)
    if code in _EMPTY:
        return []
    return [Part("[^\\n\\r]*", "")]  # a reference to a group, or a condition


def _branches(branches: Sequence[Sequence[Part]]) -> Part:
    texts = dict.fromkeys("".join(each) for each in branches)
    optional = not all(any(part.least for part in each) for each in branches)
    begins, ends = any(map(may_begin_blank, branches)), any(map(may_end_blank, branches))
    separates = all(map(has_separator, branches))
    text = f"(?:{'|'.join(texts)})" if any(texts) else ""
    return Part(text, "" if optional else None, begins=begins, ends=ends, separates=separates)


def _repeated(
    least: int, most: Any, items: list[tuple[Any, Any]], *, folded: bool, behind: bool
) -> list[Part]:
    flat = [each for each in _opened(items) if each[0] not in _EMPTY]
    if len(flat) == 1 and flat[0][0] in _SINGLE:
        return _repeated_one(least, most, *_bytes_of(*flat[0], folded=folded), behind=behind)
    parts = _sequence(items, folded=folded)
    if behind or (may_begin_blank(parts) and may_end_blank(parts)):
        parts = _sequence(items, folded=folded, behind=True)
    separates = bool(least) and has_separator(parts)
    if not any(parts):
        return [Part("", separates=separates)]
    one = f"(?:{''.join(parts)})"
    begins, ends = may_begin_blank(parts), may_end_blank(parts)
    if not least or not any(part.least for part in parts):
        return [Part(f"{one}{counted(0, most)}", "", begins=begins, ends=ends, separates=separates)]
    text = f"{one}{counted(least, most)}"
    return [Part(text, f"{one}{counted(least, least)}", begins=begins, ends=ends)]


def _repeated_one(least: int, most: Any, own: frozenset[int], high: bool, *, behind: bool) -> list[Part]:
    """Return the parts for a repeat of one character; `own`, `high`: the result of `_bytes_of`."""
    blank = BLANK in own
    separates = bool(least) and not blank
    if own & _DIGITS:
        own, least = own - _DIGITS, 0
    if not own and not high:
        return [Part("", separates=separates)]
    if high and most is not op.MAXREPEAT:
        most *= CHARACTER_BYTES
    if blank:
        least = 0 if behind else min(least, 1)
    repeat = Repeat(own | _HIGH if high else own, least, most)
    return [of_repeat(repeat, begins=blank, ends=blank, separates=separates)]


def _opened(items: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the items inside a single group without flags, however deeply nested; other items unchanged."""
    while len(items) == 1 and items[0][0] is op.SUBPATTERN and not (items[0][1][1] or items[0][1][2]):
        items = list(items[0][1][3])
    return items


def _bytes_of(code: Any, argument: Any, *, folded: bool) -> tuple[frozenset[int], bool]:
    """Return the ASCII bytes that an element matches, and whether it matches characters beyond ASCII."""
    if code is op.LITERAL:
        found, high = frozenset({argument} if argument < 128 else ()), argument > 127
    elif code is op.NOT_LITERAL:
        found, high = _ASCII - {argument}, True
    elif code is op.ANY:
        found, high = _ASCII, True
    else:
        found, high = _set_of(argument)
    if folded:
        found |= {ord(each) for c in found for each in (chr(c).lower(), chr(c).upper()) if ord(each) < 128}
    found &= _ASCII
    return (found | {TAB} if BLANK in found else found), high


def _set_of(items: Sequence[tuple[Any, Any]]) -> tuple[frozenset[int], bool]:
    negated, found, high = False, set[int](), False
    for code, argument in items:
        if code is op.NEGATE:
            negated = True
        elif code is op.LITERAL:
            found |= {argument} if argument < 128 else set()
            high = high or argument > 127
        elif code is op.RANGE:
            found.update(range(argument[0], min(argument[1], 127) + 1))
            high = high or argument[1] > 127
        else:
            found.update(c for c in range(128) if _CATEGORIES[argument].match(chr(c)))
            high = high or argument not in _ASCII_ONLY
    return (_ASCII - found, True) if negated else (frozenset(found), high)
