"""What a search may cost, and what costly lines repeat."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
