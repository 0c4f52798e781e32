"""Finds the numbers at the heads of lines that may name the process that writes them. Pure.

The place of a number is the text before it, with the words that hold digits (times, hosts, other numbers) and
levels left open. Lines of one logger give the same place whoever writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from gpuwatch.agent.logs.lines.levels import FOREIGN_LEVELS

HEAD_CHARS = 200
MAX_WORDS = 12
"""Words of a line in which numbers are read."""
ANY_WORD = r"[^\s\[\](){}<>|\"'=;,]{1,120}"
LEVEL = r"(?:[^\W\d_]{4,14})"
_RUN = re.compile(r"[^\s\[\](){}<>|\"'=;,]+")
_ALIKE = str.maketrans("123456789", "000000000")
_DIGITS = re.compile(r"[0-9]")
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]+")
_LEVELS = frozenset(
    ("DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "ERR", "CRITICAL", "FATAL", "TRACE")
) | frozenset(FOREIGN_LEVELS)
_TIME = re.compile(r"\d{1,2}:\d\d|\d{4}[-/.]\d\d|\d\d[-/.]\d\d[-/.]|\d+\.\d")
_MAX_DIGITS = 6
_JSON_FIELD = re.compile(r"(?<=[\s,{])(\"[A-Za-z_][\w.]{0,40}\"\s?:\s?\"?)([0-9]{1,6})(?=([\",}]))")
_JSON_MESSAGE = re.compile(r":\s?\"((?:[^\"\\]|\\.){0,400})\"")
_FIELD = re.compile(r"(?:^|[\s,{])([\"']?[A-Za-z_][\w.]{0,40}[\"']?\s?[:=]\s?\"?)$")


TAG_END = r"[\])>}|:]{0,2}(?: [-|>] | ?)"
"""Pattern of what closes a tag: brackets or a mark, and what stands before the message."""


class Slot(NamedTuple):
    """The place of a number in a line."""

    before: str
    """Pattern of the text before it."""
    after: str
    """The character behind it; empty at the end of a line."""
    field: bool
    """True if a key names it, so that its place in the line may vary."""


class HeadNumber(NamedTuple):
    """A number at a place."""

    slot: Slot
    text: str
    end: int
    begin: int
    of: int | None
    """The number after it (`3/8`, `3 of 8`)."""


def value_of(text: str) -> int:
    """Return the value of a number at a place, decimal or `0x...`."""
    return int(text, 16 if text[:2] == "0x" else 10)


_MESSAGE = re.compile(r"(?i)(?<![a-z])(?:steps?|loss|iter(?:ation)?|epoch|lr)(?![a-z])")
_OF = re.compile(r"(?:/ ?| (?:of|von|sur|de|di|van|\u0438\u0437|\u4e2d) )([0-9]{1,6})(?![0-9])")


def numbers_in(text: str) -> list[HeadNumber]:
    """Return the numbers at the head of a line that may name its writer, in order."""
    if text[:2] == '{"':
        return [
            HeadNumber(
                Slot(re.escape(found[1]), found[3], field=True), found[2], found.end(2), found.start(2), None
            )
            for found in islice(_JSON_FIELD.finditer(text), MAX_WORDS)
        ]
    text = text[:HEAD_CHARS]
    return [
        HeadNumber(slot, text[begin:end], end, begin, int(text[of:of_end]) if of else None)
        for slot, begin, end, of, of_end in _places_in(text.translate(_ALIKE))
        if text[begin + 1 : begin + 2] != "x" or text[begin] == "0"
    ]


@lru_cache(maxsize=1 << 12)
def _places_in(text: str) -> list[tuple[Slot, int, int, int, int]]:
    """Return slot, begin and end of each number, and begin and end of the number behind it (0: none).

    `text`: the head of a line whose digits are all `0`, because their values do not matter.
    """
    found: list[tuple[Slot, int, int, int, int]] = []
    before, at = "", 0
    for run in islice(_RUN.finditer(text), MAX_WORDS):
        word = run.group()
        before += _gap(text[at : run.start()], before)
        at = run.end()
        if _DIGITS.search(word) is None:
            before += LEVEL if word.upper() in _LEVELS else re.escape(word)
            continue
        if _TIME.match(word) is None:
            found += _numbers_of(text, run.start(), word, before)
        before += ANY_WORD
    return found


def _numbers_of(text: str, begin: int, word: str, before: str) -> Iterator[tuple[Slot, int, int, int, int]]:
    """Yield the numbers of one word, each with the others of the word left open."""
    inside, last = "", 0
    for found in _NUMBER.finditer(word):
        inside += re.escape(word[last : found.start()])
        last = found.end()
        start, end = begin + found.start(), begin + found.end()
        if len(found.group()) <= _MAX_DIGITS and not _is_fraction(text, start, end):
            named = _FIELD.search(text[max(0, start - 60) : start])
            of = _OF.match(text, end)
            slot = Slot(before + inside, text[end : end + 1], field=False)
            if named is not None:
                slot = Slot(re.escape(named[1]), text[end : end + 1], field=True)
            yield (slot, start, end, *((0, 0) if of is None else of.span(1)))
        inside += "[0-9]{1,18}"


def _is_fraction(text: str, start: int, end: int) -> bool:
    """Return True for a part of a decimal number or a time."""
    left, right = text[max(0, start - 2) : start], text[end : end + 2]
    after = len(right) == 2 and right[0] in ".:," and right[1].isdecimal()
    bare = start == 0 or not (text[start - 1].isalpha() or text[start - 1] in "-_#")
    return (len(left) == 2 and left[1] in ".:," and left[0].isdecimal()) or (after and bare)


def any_level(text: str) -> str:
    """Return the pattern of a text, open as to levels and words with digits, such as times."""
    pattern, at = "", 0
    for run in _RUN.finditer(text):
        pattern += _gap(text[at : run.start()], pattern)
        pattern += ANY_WORD if _DIGITS.search(run.group()) is not None else _word_or_level(run.group())
        at = run.end()
    return pattern + _gap(text[at:], pattern)


def _gap(text: str, before: str) -> str:
    """Return the pattern of what stands between two words; levels are padded to one width."""
    bare = text.lstrip(" ")
    return r"\ {1,9}" + re.escape(bare) if bare != text and before.endswith(LEVEL) else re.escape(text)


def _word_or_level(word: str) -> str:
    return "".join(
        LEVEL if part.upper() in _LEVELS else re.escape(part) for part in re.split(r"([A-Za-z]+)", word)
    )


def message_of(text: str, number: HeadNumber) -> str:
    """Return what a line states beside the number: what follows it, or the longest value of a record."""
    if text[:2] != '{"':
        return text[number.end :]
    return max(_JSON_MESSAGE.findall(text), key=lambda value: value.count(" "), default="")


def is_head(slot: Slot) -> bool:
    """Return True if a slot stands before the message, not in or behind it."""
    return not slot.field and _MESSAGE.search(slot.before) is None


def pattern_at(slot: Slot, digits: str = r"(0x[0-9a-fA-F]{1,8}|[0-9]{1,6})") -> str:
    """Return the pattern of a slot whose group is the number."""
    close = re.escape(slot.after) if slot.after else "$"
    if slot.field:
        return r".{0,2000}?(?:^|(?<=[\s,{]))" + slot.before + digits + f"(?={close})"
    rest = r"(?:/| of |/ )[0-9]{1,6}" if slot.after in ("/", " ") else ""
    return slot.before + digits + f"(?={close})" + (f"(?:{rest})?" if rest else "") + TAG_END
