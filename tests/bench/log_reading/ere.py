"""Python's regular expressions as POSIX extended ones, for grep; lookarounds are left out."""

from __future__ import annotations

import re
from typing import Any

from gpuwatch.rules.compiling.check import op, parsed

_CATEGORIES = {
    op.CATEGORY_DIGIT: "0-9",
    op.CATEGORY_SPACE: "[:space:]",
    op.CATEGORY_WORD: "[:alnum:]_",
}
_NOT = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}
_AT = {op.AT_BEGINNING: "^", op.AT_END: "$", op.AT_BOUNDARY: r"\b", op.AT_NON_BOUNDARY: r"\B"}
_AT |= {op.AT_BEGINNING_STRING: "^", op.AT_END_STRING: "$"}


def to_ere(pattern: str) -> str:
    """The pattern for `grep -E`, in bytes' order of LC_ALL=C."""
    tree = parsed(pattern)
    return _sequence(tree, bool(tree.state.flags & re.IGNORECASE))


def _sequence(tree: Any, fold: bool) -> str:
    return "".join(_element(code, argument, fold) for code, argument in tree)


def _element(code: Any, argument: Any, fold: bool) -> str:
    if code is op.LITERAL:
        return _character(argument, fold)
    if code is op.ANY:
        return "."
    if code is op.NOT_LITERAL:
        return _bracket([(op.NEGATE, None), (op.LITERAL, argument)], fold)
    if code is op.IN:
        return _bracket(argument, fold)
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        low, high, body = argument
        most = "" if high == op.MAXREPEAT else str(high)
        return f"({_sequence(body, fold)}){{{low},{most}}}"
    if code is op.SUBPATTERN:
        return f"({_sequence(argument[3], fold or bool(argument[1] & re.IGNORECASE))})"
    if code is op.BRANCH:
        return f"({'|'.join(_sequence(branch, fold) for branch in argument[1])})"
    return _AT.get(argument, "") if code is op.AT else ""


def _character(value: int, fold: bool) -> str:
    char = chr(value)
    if fold and char.isalpha() and char.isascii():
        return f"[{char.lower()}{char.upper()}]"
    return char if char.isalnum() or value > 126 or char in " _-:,;=<>/'\"@#%&!~`" else "\\" + char


def _bracket(items: Any, fold: bool) -> str:
    negated, inside, last = "", "", ""
    for code, argument in items:
        if code is op.NEGATE:
            negated = "^"
        elif code is op.LITERAL and chr(argument) in "]^-":
            last += chr(argument)
        elif code is op.LITERAL and chr(argument) != "\n":  # which ends a pattern of grep's file
            char = chr(argument)
            inside += char.lower() + char.upper() if fold and char.isalpha() else char
        elif code is op.RANGE:
            inside += f"{chr(argument[0])}-{chr(argument[1])}"
        elif code is not op.LITERAL and argument in _NOT:  # exact alone, which is how it is mostly used
            negated, inside = "^", inside + _CATEGORIES[_NOT[argument]]
        elif code is not op.LITERAL:
            inside += _CATEGORIES[argument]
    last = ("]" if "]" in last else "") + inside + ("^" if "^" in last else "") + ("-" if "-" in last else "")
    return f"[{negated}{last}]" if last != "^" or negated else r"\^"
