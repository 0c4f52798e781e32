"""Requests to end a command: Ctrl-C, TERM and a closed terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def leaving_politely() -> Iterator[None]:
    """While inside, TERM and HUP unwind the stack, so that links are closed; the status is 128 + signal."""
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(number: int, _frame: FrameType | None) -> None:
    """End, from wherever the main thread is."""
    raise SystemExit(128 + number)


class StopRequest:
    """Whether the person has had enough."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """For whoever works."""
        return self.asked


@contextlib.contextmanager
def ctrl_c_stops(stop: StopRequest) -> Iterator[None]:
    """The first Ctrl-C ends the work, what came of it is still printed; the second one ends everything."""

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
