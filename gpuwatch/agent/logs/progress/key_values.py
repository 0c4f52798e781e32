"""Reads the numbers of a line, each with the words before and the unit after it.

One reader for all notations: `loss: 2.1`, `loss=2.1`, `'loss': 2.1`, `| loss  2.1 |`, `loss 2.1 lr 3e-4`,
`grad norm (clipped): 1.0`. The text between two numbers belongs to the second one, back to the last
separator.
"""

import re
from functools import lru_cache

from ...patterns.module_pattern import pattern_of
from .quantities import CLOCK, NUMBER, ODD, SPELLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MAX_PAIRS = 400
CACHED_TEXTS = 256
"""Cached texts between two numbers: the lines of a log repeat them."""

RATE = (
    r"(?:[A-Za-z]{1,12}\.?)?/[A-Za-z]{1,12}(?:/[A-Za-z]{1,12})?"
    r"|[A-Za-z]{1,12}[ _]per[ _]s(?:ec(?:ond)?)?\b|[GT]FLOPS?\b"
)
UNIT = (
    r"%|[kKMGT]?i?B(?:ytes)?\b"
    r"|(?:ms|us|s|secs?|seconds?|msec|min|mins|minutes?|hrs?|hours?|days?|[hdmMGKkBT])\b"
)
_PAIR = pattern_of(
    r"(?<![\w.@/])(?P<value>" + CLOCK + r"(?![\w:])|" + SPELLED + r"(?![\w/])"
    r"|[-+]?" + NUMBER + r"(?: {0,12}(?:/|(?:out )?of) {0,12}" + NUMBER + r")?|(?:" + ODD + r")(?![\w/]))"
    r"(?:(?:[kM](?= ))?\s{0,2}(?P<rate>" + RATE + r")(?!\w| ?[:=])|\s?(?P<unit>" + UNIT + r")(?![/\w]))?",
    re.I,
)
_PARTING = pattern_of(
    r"[|,;{}\[\]<>=:\u2502\u2503]|\)[\s,]|\s--?\s|\s{3,}|\((?=[^()]*$)|(?:^|\s)(?:INFO|DEBUG|WARN|WARNING|ERROR)\s"
)
_NEXT_NUMBER = pattern_of(r"\s{1,4}[-+]?(?:" + NUMBER + r")(?!\w|\s?(?:" + RATE + r"|" + UNIT + r"))", re.I)
_OF_A_RATE = pattern_of(r"speed|throughput|(?:^|_)(?:ips|fps)")
_AROUND = " \t\"'`:=([{~*#_-"
_BEFORE = " \t\"'`)%.,;*#>_-\u2022\u2514\u2500\u251c"
_SPACES = pattern_of(r"[\s_-]+")
_BRACKETED = pattern_of(r"(?:^|[\s,|])\[([A-Za-z][\w .-]{0,40})\]\s?[:=]\s{0,4}$")
_VALUE = pattern_of(r"(?:\"[^\"]{0,120}\"|[^\s\"]{1,80})\s{1,4}(?=\S)")
"""A logfmt value: after `=` without a blank, up to the next name."""
_SPEAKER = pattern_of(
    r"^(?:r|rk|rank|w|worker|node|host|proc|process|task|trainer)\d{1,6}_|^(?:trainer|runner)_(?=step|iter)"
)
"""The writer at the head of a line, without a sign after it: `r5 step 40`."""
_WRAPPING = ("tensor", "np.float32", "np.float64")
_MAX_VALUE_CHARS = 120


def pairs(text: str) -> "Iterator[tuple[str, str, str]]":
    """Yield (words, value with unit, rate) for each number in a line; the words are `canonical`.

    The rate is a word such as `tok/s`, else "". In `loss 2.5 tok/s 1200` it is the word of the second number.
    """
    end = 0
    for number, found in enumerate(_PAIR.finditer(text)):
        if number >= MAX_PAIRS:
            return
        rate = found.group("rate") or ""
        words = _words(text[max(end, found.start() - _MAX_VALUE_CHARS) : found.start()])
        behind, end = found.end() - len(rate), found.end()
        if rate and words and _NEXT_NUMBER.match(text, end) and not _OF_A_RATE.search(words):
            end, rate = behind, ""
        yield words, text[found.start() : behind], canonical(rate)


def canonical(words: str) -> str:
    """Return words in lower case, joined by one underscore in place of blanks, underscores and hyphens."""
    return _SPACES.sub("_", words.strip(_AROUND).lower())


@lru_cache(maxsize=CACHED_TEXTS)
def _words(before: str) -> str:
    bracketed = _BRACKETED.search(before) if "]" in before[-6:] else None
    if bracketed is not None:  # `[loss]: 2.5`
        return canonical(bracketed.group(1))
    before = before.rstrip(_AROUND)
    if before.endswith((" is", "->", "=>")):
        before = before[:-2].rstrip(_AROUND)
    elif before.endswith(_WRAPPING):  # `{'loss': np.float64(2.5)}`, `loss: tensor(2.5)`
        before = before[: -max(len(each) for each in _WRAPPING if before.endswith(each))].rstrip(_AROUND)
    begin = 0
    for sign in _PARTING.finditer(before):
        begin = sign.end()
    if before[:begin].endswith("="):  # `level=info step=40`
        value = _VALUE.match(before, begin)
        begin = begin if value is None else value.end()
    words = before[begin:].lstrip(_BEFORE)
    while words and words[0] > "\x7f" and not words[0].isalnum():
        words = words[1:].lstrip(_BEFORE)
    return _SPEAKER.sub("", canonical(words))
