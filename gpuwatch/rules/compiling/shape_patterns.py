r"""Rewrites a rule's pattern for shapes of lines: it matches the shape of every line the rule can match.

A shape is a line without its digits (see `agent.logs.matching.prefilter`). Anchors, word borders and
look-arounds are dropped, digits may be missing, and a blank may be a tab, which a searched line has expanded.

Example: `^\[rank(\d+)\]: (?!x)err.{0,200}` becomes `\[rank\]:[ \t]err`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from gpuwatch.rules.compiling.check import op, parsed
from gpuwatch.rules.compiling.pattern_parts import REPEATS, is_folded

BLANK, TAB = 32, 9
CHARACTER_BYTES = 4
"""Maximum bytes of a UTF-8 character."""
_DIGITS = frozenset(b"0123456789")
_HIGH = frozenset(range(128, 256))
_ASCII = frozenset(range(128)) - frozenset(b"\n\r")
_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
_EMPTY = (op.AT, op.ASSERT, op.ASSERT_NOT)
"""Elements without a character of their own."""
_CATEGORIES = {
    op.CATEGORY_DIGIT: re.compile(r"\d"),
    op.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    op.CATEGORY_SPACE: re.compile(r"\s"),
    op.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    op.CATEGORY_WORD: re.compile(r"\w"),
    op.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


@lru_cache(maxsize=8192)
def shape_pattern(pattern: str) -> bytes | None:
    """Return the pattern for shapes; None: any shape may match."""
    tree = parsed(pattern)
    parts = _sequence(list(tree), folded=bool(tree.state.flags & re.IGNORECASE))
    return "".join(_trimmed(parts)).encode() or None


class _Part(str):
    """A part of the new pattern."""

    __slots__ = ("begins", "ends", "least")
    least: str
    """The part of it required at an edge of the pattern; "": none."""
    begins: bool
    ends: bool
    """True if its first or last character may be a blank."""

    def __new__(
        cls, text: str, least: str | None = None, *, begins: bool = False, ends: bool = False
    ) -> _Part:
        self = super().__new__(cls, text)
        self.least = text if least is None else least
        self.begins, self.ends = begins, ends
        return self


def _begins(parts: Iterable[_Part]) -> bool:
    """Return True if the first character of a sequence may be a blank."""
    for part in parts:
        if part.begins:
            return True
        if part.least:
            return False
    return False


def _ends(parts: Sequence[_Part], *, behind: bool = False) -> bool:
    """Return True if the last character of a sequence may be a blank; `behind`: the one before it may be."""
    for part in reversed(parts):
        if part.ends:
            return True
        if part.least:
            return False
    return behind


def _trimmed(parts: Sequence[_Part]) -> list[str]:
    """Return the parts without those at both edges that may be missing: the rest occurs in any match."""
    kept = list(parts)
    while kept and not kept[0].least:
        del kept[0]
    while kept and not kept[-1].least:
        del kept[-1]
    texts: list[str] = list(kept)
    if texts:
        texts[-1] = kept[-1].least
        texts[0] = kept[0].least
    return texts


def _sequence(items: Sequence[tuple[Any, Any]], *, folded: bool, behind: bool = False) -> list[_Part]:
    """Return the parts of a sequence; of adjacent blanks only the first is required: a tab is several.

    Args:
        items: The elements.
        folded: True if upper and lower case are equal.
        behind: True if the character before the sequence may be a blank.
    """
    parts: list[_Part] = []
    for code, argument in items:
        parts += _parts(code, argument, folded=folded, behind=_ends(parts, behind=behind))
    return parts


def _parts(code: Any, argument: Any, *, folded: bool, behind: bool) -> list[_Part]:
    """Return an element as parts; none for one that leaves no character, such as an anchor or a digit."""
    if code is op.LITERAL and argument > 127 and not folded:
        return [_Part("".join(map(_escaped, chr(argument).encode())))]
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
    return [_Part("[^\\n\\r]*", "")]  # a reference to a group, or a condition


def _branches(branches: Sequence[Sequence[_Part]]) -> _Part:
    texts = dict.fromkeys("".join(each) for each in branches)
    optional = not all(any(part.least for part in each) for each in branches)
    begins, ends = any(map(_begins, branches)), any(map(_ends, branches))
    return _Part(f"(?:{'|'.join(texts)})", "" if optional else None, begins=begins, ends=ends)


def _repeated(
    least: int, most: Any, items: list[tuple[Any, Any]], *, folded: bool, behind: bool
) -> list[_Part]:
    flat = [each for each in _opened(items) if each[0] not in _EMPTY]
    if len(flat) == 1 and flat[0][0] in _SINGLE:
        return _repeated_one(least, most, *_bytes_of(*flat[0], folded=folded), behind=behind)
    parts = _sequence(items, folded=folded)
    if behind or (_begins(parts) and _ends(parts)):
        parts = _sequence(items, folded=folded, behind=True)
    if not parts:
        return []
    one = f"(?:{''.join(parts)})"
    begins, ends = _begins(parts), _ends(parts)
    if not least or not any(part.least for part in parts):
        return [_Part(f"{one}{_counted(0, most)}", "", begins=begins, ends=ends)]
    text = f"{one}{_counted(least, most)}"
    return [_Part(text, f"{one}{_counted(least, least)}", begins=begins, ends=ends)]


def _repeated_one(least: int, most: Any, own: frozenset[int], high: bool, *, behind: bool) -> list[_Part]:
    """Return the repeat of one character; `own` and `high` as of `_bytes_of`."""
    blank = BLANK in own
    if own & _DIGITS:
        own, least = own - _DIGITS, 0
    if not own and not high:
        return []
    if high and most is not op.MAXREPEAT:
        most *= CHARACTER_BYTES
    one = _class(own | _HIGH if high else own)
    if blank:
        least = 0 if behind else min(least, 1)
    if not least:
        return [_Part(f"{one}{_counted(0, most)}", "", begins=blank, ends=blank)]
    text = f"{one}{_counted(least, most)}"
    return [_Part(text, f"{one}{_counted(least, least)}", begins=blank, ends=blank)]


def _counted(least: int, most: Any) -> str:
    if most is op.MAXREPEAT:
        return "*" if least == 0 else "+" if least == 1 else f"{{{least},}}"
    if least == most:
        return "" if least == 1 else f"{{{least}}}"
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"


def _opened(items: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the content of a single group without flags, however deep; else the items."""
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
            high = True
    return (_ASCII - found, True) if negated else (frozenset(found), high)


def _class(own: frozenset[int]) -> str:
    if len(own) == 1:
        return _escaped(next(iter(own)))
    ranges: list[list[int]] = []
    for each in sorted(own):
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return "[" + "".join(_range(low, high) for low, high in ranges) + "]"


def _range(low: int, high: int) -> str:
    return _escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}"


def _escaped(byte: int) -> str:
    return chr(byte) if chr(byte).isalpha() and byte < 128 else f"\\x{byte:02x}"
