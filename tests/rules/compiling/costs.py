"""What a search may cost, and what costly lines repeat."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from types import FrameType
from typing import Any

from gpuwatch.rules.compiling.check import characters_of, op, parsed
from gpuwatch.rules.compiling.pattern_parts import REPEATS


class TooLongError(Exception):
    """A search took more CPU time than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End what takes longer; `re` looks for signals while it searches."""

    def ended(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, ended)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


REPEATED = (
    "0",
    "0-0-0T",
    "00:00:00 ",
    "a",
    "A",
    " ",
    "\t",
    "-",
    "_",
    "[",
    "(",
    "{",
    "'",
    '"',
    ",",
    ":",
    ".",
    "=",
    "|",
    "/",
    "0/0 ",
    "0.0e",
    "a=1 ",
    "1,",
    "x: ",
    "█",
    "%| ",
    "rank ",
    "[rank0]: ",
    "0 ",
    "aA0_",
    "a.",
    "a b ",
    "\\",
    "<",
    "loss: 0 ",
    "it/s ",
    "gpu0 ",
    "10.0.0.",
    "a-",
    "epoch 0 ",
    "0:",
    "{'",
    "ssh ",
    "Rank 0]",
)


def sample(tree: Any, pick: random.Random) -> str:
    """A text that about fits a pattern."""
    text = ""
    for code, argument in tree:
        if code is op.LITERAL:
            text += chr(argument)
        elif code is op.IN:
            text += one_of(argument, pick)
        elif code in (op.NOT_LITERAL, op.ANY):
            text += pick.choice("a0 -")
        elif code is op.BRANCH:
            text += sample(pick.choice(argument[1]), pick)
        elif code is op.SUBPATTERN:
            text += sample(argument[3], pick)
        elif code in (op.MAX_REPEAT, op.MIN_REPEAT):
            low, high, body = argument
            text += "".join(sample(body, pick) for _ in range(pick.randint(low, min(high, low + 3))))
    return text


SHARED = ".a0/-_ =:,'x1"
"""Characters that neighbouring repeats often share."""
LONG_REPEAT = 60
PUMPED_CHARS, PUMPED_SHARE = 2048, 4
PUMPED_MOST = 9.0
"""Times the CPU time of a quarter of the line; a quadratic pattern takes 16."""
PUMPED_NOISE_S = 0.06
PUMPED_GIVEN_UP_S = 1.0


def slowest_pump(use: Callable[[Any], object], pattern: str, *, as_bytes: bool = False) -> str | None:
    """A line of the pattern's own repeats that takes more than time in proportion to it; None: none does."""
    for before, piece in dict.fromkeys(pumps(parsed(pattern))):
        long, short = (
            (before + piece * chars)[:chars] + "\x01"
            for chars in (PUMPED_CHARS, PUMPED_CHARS // PUMPED_SHARE)
        )
        seconds = _cost_s(use, long.encode() if as_bytes else long)
        if seconds > PUMPED_NOISE_S:
            less = _cost_s(use, short.encode() if as_bytes else short)
            if seconds > PUMPED_MOST * less or seconds >= PUMPED_GIVEN_UP_S:
                return long
    return None


def _cost_s(use: Callable[[Any], object], line: str | bytes) -> float:
    began = process_time()
    try:
        with at_most(PUMPED_GIVEN_UP_S):
            use(line)
    except TooLongError:
        return 4 * PUMPED_GIVEN_UP_S
    return process_time() - began


def pumps(tree: Any) -> Iterator[tuple[str, str]]:
    """A beginning up to a repeat of the pattern, and a text that the repeat repeats, of one character where
    it can be: a line of both has as many ways to match as a line can have."""
    for character in SHARED:
        yield from _pumps(tree, character, "")


def _pumps(tree: Any, character: str, before: str) -> Iterator[tuple[str, str]]:
    pick = random.Random(7)
    for code, argument in tree:
        if code in REPEATS:
            for long in (1, LONG_REPEAT // 5, LONG_REPEAT):
                yield before[-400:], _filled(argument[2], character, long, pick)[:1000]
            yield from _pumps(argument[2], character, before)
        elif code is op.SUBPATTERN:
            yield from _pumps(argument[3], character, before)
        elif code is op.BRANCH:
            for branch in argument[1]:
                yield from _pumps(branch, character, before)
        before += _filled([(code, argument)], character, 2, pick)


def _filled(tree: Any, character: str, long: int, pick: random.Random) -> str:
    """Return a text that matches a pattern: `character` wherever it fits, and long repetitions."""
    text = ""
    for code, argument in tree:
        if code is op.IN:
            fits = ord(character) in characters_of(op.IN, argument)
            text += character if fits else one_of(argument, pick)
        elif code in (op.NOT_LITERAL, op.ANY):
            text += character
        elif code is op.BRANCH:
            text += _filled(pick.choice(argument[1]), character, long, pick)
        elif code is op.SUBPATTERN:
            text += _filled(argument[3], character, long, pick)
        elif code in REPEATS:
            low, high, body = argument
            times = max(low, min(high, long))
            text += "".join(_filled(body, character, max(1, long // 4), pick) for _ in range(times))
        else:
            text += sample([(code, argument)], pick)
    return text


def one_of(items: Any, pick: random.Random) -> str:
    code, argument = pick.choice(items)
    if code is op.LITERAL:
        return chr(argument)
    if code is op.RANGE:
        return chr(pick.randint(*argument))
    if code is op.CATEGORY:
        return {op.CATEGORY_DIGIT: "0", op.CATEGORY_SPACE: " ", op.CATEGORY_WORD: "a"}.get(argument, "-")
    return pick.choice("a0 -")
