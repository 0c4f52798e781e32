"""The places of nouns around a predicate; a folder named `gpu` states nothing about a GPU. Pure."""

from __future__ import annotations

import re

BEFORE, BEHIND = 90, 70
"""Characters before and behind a predicate in which its subject is searched for."""
_PLACE = re.compile(r"(?i)\b(?:on|of|in|at|from|to|by|with|for|after) (?:the |its |a )?$")
NAME_FAR = 40
"""Characters added to the distance of a bare name (`md0`), so that a noun near it is preferred."""
_PREPOSITION = r"(?:on|of|in|at|from|for|to|by|with|and|or|both|all|port|number|the|its|this|that)\b"
_BETWEEN = re.compile(
    r"(?i)[\s:;,.()\[\]#-]+|(?=[^\s\d]{0,80}\d)\S+|\"[^\"]*\"|'[^']*'|/\S+"
    rf"|{_PREPOSITION}(?: {_PREPOSITION})*(?: (?![\"'])[^\s,;]+)?"
    r"|(?:writer|saver|thread|process|uploads?|uploader|worker|statistics|stats|values|state|data|set|phys|ids?"
    r"|input|power|is|was|has|which)\b"
)
"""Matches a piece of text that may stand between a noun and its predicate, but no other noun.

Such pieces are names, numbers and places. They are matched one after the other, because a repeated
alternation would try their splits without end.
"""
MAX_WORDS_BEFORE = 7
"""Most words between the beginning of a predicate and a noun behind it."""
_START = r"(?<![^\s\"'(\[=])"
_PART = r"[^\s\"'(),;:=\[\]]"
_PROGRAM = re.compile(
    rf"{_START}{_PART}{{1,200}}\.(?:py|ipynb|sh|pl|jl|rs|cc?|cpp|cu|h|so|ya?ml|json|toml|cfg|ini|sbatch|slurm|md"
    r"|txt|log|csv)\b"
)
"""A file that is no part of a machine or of a training's state: a program, a setting, a text."""
_PATH = re.compile(
    rf"{_START}(?:[~.]{{0,2}}/{_PART}{{1,200}}|[^\s/\"'(),;:=\[\]]{{1,80}}/{_PART}{{1,80}}/{_PART}{{1,200}})"
)


def masked_paths(text: str, *, all_paths: bool) -> str:
    """Return the text, of the same length, with file names replaced by tildes.

    Args:
        text: A sentence, or a part of one.
        all_paths: True: every path of several parts, too; False: programs, settings and texts alone.
    """
    text = _PROGRAM.sub(_tildes, text)
    return _PATH.sub(_tildes, text) if all_paths else text


def _tildes(found: re.Match[str]) -> str:
    return "~" * len(found.group())


def distances(nouns: re.Pattern[str], text: str, *, anywhere: bool, names_far: bool) -> list[int]:
    """Return the distance of the nearest noun to the end of a text, as a list; empty: no noun.

    A noun behind `on` or `of` is farther (by `BEFORE`), and so is a bare name with `names_far`. `anywhere`:
    other nouns may stand between.
    """
    ends = [
        (found.start(), found.end(), NAME_FAR if names_far and found.group()[-1].isdecimal() else 0)
        for found in nouns.finditer(text)
        if anywhere or _is_between(text, found.end())
    ]
    far = (
        len(text) - end + (BEFORE if _PLACE.search(text[:start]) else 0) + more for start, end, more in ends
    )
    return sorted(far)[:1]


def _is_between(text: str, start: int) -> bool:
    """Return True if the text from `start` on consists only of pieces that `_BETWEEN` matches."""
    while start < len(text):
        piece = _BETWEEN.match(text, start)
        if piece is None:
            return False
        start = piece.end()
    return True


def starts(nouns: re.Pattern[str], text: str) -> list[int]:
    """Return the offset of the first noun in a text, as a list; empty: none is near its beginning."""
    return [
        found.start()
        for found in nouns.finditer(text)
        if text.count(" ", 0, found.start()) <= MAX_WORDS_BEFORE
    ][:1]
