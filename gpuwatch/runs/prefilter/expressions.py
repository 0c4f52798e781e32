r"""Reduces patterns for shapes to expressions that Hyperscan searches fast.

Hyperscan finds texts far faster than it follows a repeat of nearly any character. Of `worker .*died abruptly`
it therefore searches one part, `died abruptly`; a line that it finds is then compared with the whole pattern.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from gpuwatch.rules.compiling.check import characters_of, inner_parts, op, parsed
from gpuwatch.rules.compiling.keep import kept_texts
from gpuwatch.rules.compiling.pattern_parts import REPEATS

LARGE_REPEAT = 8
"""Largest bound of a repeat that is kept in an expression; larger ones become unbounded.

The database is then compiled in a tenth of the time.
"""
WIDE_CHARACTERS = 24
"""Characters of a class from which on its repeats separate the parts of a pattern."""
FEW_CHARACTERS = 3
"""Characters of a class up to which it counts as one character of a text."""
MIN_TEXT = 6
"""Characters of the text that each match of a part must have, for the part to be searched alone."""
_CODE = ("check.py", "pattern_parts.py", "../../runs/prefilter/expressions.py")
_BOUNDED = re.compile(r"\{(\d+),(\d+)\}")
_ATOM = re.compile(r"\\x[0-9a-f]{2}|\\.|\[(?:[^\]\\]|\\.)*\]|[^\\\[()|]", re.DOTALL)
_REPEAT = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")


def expressions_or_kept(patterns: Collection[str]) -> dict[str, str]:
    """Return pattern -> result of `expression_of`, from the cache folder if the same were given before."""
    return kept_texts("expressions", patterns, _CODE, expression_of)


def expression_of(pattern: str) -> str:
    """Return an expression that matches in each text in which the pattern matches."""
    loose = _BOUNDED.sub(_unbounded, pattern)
    parts = list(_parts(loose))
    best = max(parts, key=_least_text, default=loose)
    return best if len(parts) > 1 and _least_text(best) >= MIN_TEXT else loose


def _unbounded(found: re.Match[str]) -> str:
    least, most = int(found[1]), int(found[2])
    if most <= LARGE_REPEAT:
        return found[0]
    return "*" if not least else "+" if least == 1 else f"{{{least},}}"


def _parts(pattern: str) -> Iterator[str]:
    """Yield the parts of a sequence between its wide repeats; nothing if the pattern is a choice."""
    begin = at = 0
    while at < len(pattern):
        if pattern[at] == "|":
            return
        end = _end_of_group(pattern, at) if pattern[at] == "(" else _end_of_atom(pattern, at)
        repeat = _REPEAT.match(pattern, end)
        stop = end if repeat is None else repeat.end()
        if _is_wide(pattern[at:stop]):
            yield pattern[begin:at]
            begin = stop
        at = stop
    yield pattern[begin:]


def _end_of_group(pattern: str, at: int) -> int:
    depth = 0
    while True:
        if pattern[at] in "()":
            depth += 1 if pattern[at] == "(" else -1
            at += 1
            if not depth:
                return at
        else:
            at = _end_of_atom(pattern, at)


def _end_of_atom(pattern: str, at: int) -> int:
    found = _ATOM.match(pattern, at)
    return at + 1 if found is None else found.end()


def _is_wide(element: str) -> bool:
    """Return True if an element of a pattern has a repeat of a class of many characters."""
    return any(_has_wide(code, argument) for code, argument in parsed(element))


def _has_wide(code: Any, argument: Any) -> bool:  # noqa: ANN401 - parse trees
    if code in REPEATS and argument[1] > 1 and len(characters_of(*argument[2][0])) >= WIDE_CHARACTERS:
        return True
    return any(_has_wide(*each) for inner in inner_parts(code, argument) for each in inner)


def _least_text(part: str) -> int:
    """Return the length of a run of nearly fixed characters that every match of an expression contains.

    Each is a literal or one of at most `FEW_CHARACTERS`. 0: none, or an empty expression.
    """
    return _least(parsed(part))[0] if part else 0


def _least(tree: Any) -> tuple[int, int | None]:  # noqa: ANN401 - a parse tree
    """Return the least length of the longest text in a match, and of the match (None: it is not one text)."""
    best = length = 0
    is_text = True
    for code, argument in tree:
        if code is op.AT:
            continue
        if code is op.LITERAL or (code is op.IN and len(characters_of(code, argument)) <= FEW_CHARACTERS):
            length += 1
            continue
        inner = [] if code in REPEATS and not argument[0] else list(map(_least, inner_parts(code, argument)))
        sizes = [size for _, size in inner if size is not None]
        if inner and code not in REPEATS and len(sizes) == len(inner):
            length += min(sizes)
        else:
            best = max(best, length, min((most for most, _ in inner), default=0))
            length, is_text = 0, False
    return max(best, length), length if is_text else None
