"""What a search may cost, and what costly lines repeat."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gpuwatch.rules.compiling.check import op


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


def one_of(items: Any, pick: random.Random) -> str:
    code, argument = pick.choice(items)
    if code is op.LITERAL:
        return chr(argument)
    if code is op.RANGE:
        return chr(pick.randint(*argument))
    if code is op.CATEGORY:
        return {op.CATEGORY_DIGIT: "0", op.CATEGORY_SPACE: " ", op.CATEGORY_WORD: "a"}.get(argument, "-")
    return pick.choice("a0 -")
