"""Node names and node ranges: `node[001-128]`, `gpu-[1-2]-[01-03]`, `a[1-9/2],b5`, `node[1-9]!node[3,7]`.

The notation, the sets of numbers and the folding are ClusterShell's. Ranges are counted before they are
expanded, and no group resolver is used. The digits before a bracket are kept: ClusterShell's own parser reads
`n1[9-10]` as `n[19-110]`, 92 nodes instead of two.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from msgspec import Struct

from gpuwatch.hosts.validation.errors import shown

MAX_NODES = 10_000
"""More nodes than one gpuwatch can watch; a larger range is a typing error."""
MAX_NAME = 253
"""The maximum length of a DNS name."""

USER = r"[^\s-]\S{0,255}"
"""The form of a user name; a leading `-` would make it an option of ssh."""

_OPERAND = re.compile(r"(?:[^\s,!&^\[\]]|\[[^\[\]]*\])+")
_OPERATOR = re.compile(r"\s*([,!&^])\s*|\s+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_NUMBERS = re.compile(r"\s*([0-9]{1,18})\s*(?:-\s*([0-9]{1,18})\s*(?:/\s*([0-9]{1,9})\s*)?)?")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.:%/+~-]")


class RangeError(ValueError):
    """Raised for an invalid node range; `offset` is the position in its text, counted from 0."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class _Operand(Struct, frozen=True):
    operator: str
    pieces: tuple[str | tuple[str], ...]
    """Literal text as a string, the inside of a bracket as a tuple of one string."""
    count: int


def expand(text: str, most: int = MAX_NODES) -> list[str]:
    """Return the node names in a range, without repetitions, in the order written.

    Raises:
        RangeError: The text is no node range, names no node, or names more than `most` nodes.
    """
    operands = _scan(text)
    count = sum(operand.count for operand in operands)
    if count > most:
        raise RangeError(0, f"{count:,} nodes, more than the {most:,} that are allowed")
    names: dict[str, None] = {}
    for operand in operands:
        _combine(names, operand)
    if not names:
        raise RangeError(0, "it selects no node")
    return list(names)


def expand_login(text: str, most: int = MAX_NODES) -> tuple[str | None, list[str]]:
    """Return (user, node names) of `[user@]range`; the user is None if the text names none.

    Raises:
        RangeError: The range is invalid as for `expand`, or the user is not a user name.
    """
    user, separator, nodes = text.rpartition("@")
    if not separator:
        return None, expand(text, most)
    if not re.fullmatch(USER, user) or not user.isprintable():
        raise RangeError(0, f"{shown(user)} is not a user name")
    try:
        return user, expand(nodes, most)
    except RangeError as error:
        raise RangeError(len(user) + 1 + error.offset, str(error)) from None


def fold(names: Iterable[str]) -> str:
    """Return the names folded into sorted ranges such as `node[001-003,007]`, without repetitions.

    If a number in a name is too large for ClusterShell, return all names as given, joined by commas.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415 - takes 25 ms

    listed = list(names)
    try:
        return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))
    except NodeSetException:  # a number too large for ClusterShell
        return ",".join(listed)


def _combine(names: dict[str, None], operand: _Operand) -> None:
    from ClusterShell.RangeSet import RangeSet  # noqa: PLC0415 - takes 25 ms, and `--local` has no ranges

    choices = (
        [piece] if isinstance(piece, str) else RangeSet(piece[0]).striter() for piece in operand.pieces
    )
    added = dict.fromkeys("".join(parts) for parts in itertools.product(*choices))
    if operand.operator == ",":
        names.update(added)
    elif operand.operator == "&":
        _drop(names, [name for name in names if name not in added])
    else:
        both = [name for name in added if name in names]
        if operand.operator == "^":
            names.update(added)
        _drop(names, both)


def _drop(names: dict[str, None], gone: Iterable[str]) -> None:
    for name in gone:
        del names[name]


def _scan(text: str) -> list[_Operand]:
    operands = []
    end = len(text.rstrip())
    at, operator = len(text) - len(text.lstrip()), ","
    while True:
        match = _OPERAND.match(text, at, end)
        if match is None:
            raise RangeError(at, _why_no_name(text, text[at:end], operator))
        operands.append(_operand(match, operator))
        at = match.end()
        if at >= end:
            return operands
        separator = _OPERATOR.match(text, at, end)
        if separator is None:
            raise RangeError(at, _why_no_name(text, text[at:end], operator))
        at, operator = separator.end(), separator[1] or ","


def _why_no_name(text: str, rest: str, operator: str) -> str:
    if not text.strip():
        return "a node name is missing"
    if rest.startswith("["):
        return "'[' is not closed"
    if rest.startswith("]"):
        return "']' without a '[' before it"
    return f"a node name is missing next to '{operator}'"


def _operand(match: re.Match[str], operator: str) -> _Operand:
    pieces: list[str | tuple[str]] = []
    count, length = 1, 0
    for piece in _PIECE.finditer(match[0]):
        at = match.start() + piece.start()
        if piece[2] is None:
            pieces.append((piece[1],))
            choices, digits = _numbers(piece[1], at + 1)
            count, length = count * choices, length + digits
        else:
            _check_literal(piece[2], at, first=not pieces)
            pieces.append(piece[2])
            length += len(piece[2])
    if length > MAX_NAME:
        raise RangeError(match.start(), f"a name of {length} characters, at most {MAX_NAME} are allowed")
    return _Operand(operator, tuple(pieces), count)


def _check_literal(text: str, at: int, *, first: bool) -> None:
    if first and text.startswith("-"):
        raise RangeError(at, "a node name cannot begin with '-'")
    bad = _NOT_IN_NAMES.search(text)
    if bad is None:
        return
    hint = "; a range is written [1-3]" if bad[0] in "{}" else ""
    hint = "; list the nodes or write a range, patterns are not matched" if bad[0] in "*?" else hint
    raise RangeError(at + bad.start(), f"{shown(bad[0])} cannot be part of a node name{hint}")


def _numbers(text: str, at: int) -> tuple[int, int]:
    """Return (number of values, digits of the longest number) of the inside of a bracket such as `1-10/2,15`.

    `at` is the offset of the text, for errors.

    Raises:
        RangeError: A part is no number or range, is empty, or its ends are padded differently.
    """
    count, digits = 0, 0
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part)
        if match is None:
            what = f"{shown(part)} is not a number or a range such as 1-8" if part.strip() else "empty range"
            raise RangeError(at, what)
        first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
        if int(first) > int(last) or step == 0:
            why = "write first-last or first-last/step, with first <= last and step >= 1"
            raise RangeError(at, f"the range '{part}' contains no number: {why}")
        padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
        if padded and len(first) != len(last):
            raise RangeError(at, f"both ends of '{part}' need the same number of digits")
        count += (int(last) - int(first)) // step + 1
        digits = max(digits, len(last))
        at += len(part) + 1
    return count, digits
