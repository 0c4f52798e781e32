"""Requests to end a command: Ctrl-C, TERM and a closed terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def leaving_politely() -> Iterator[None]:
    """Within this context TERM and HUP unwind the stack, so that links are closed.

    The status is 128 + signal.
    """
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(number: int, _frame: FrameType | None) -> None:
    """Exit from any point of the main thread."""
    raise SystemExit(128 + number)


class StopRequest:
    """The user's request to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """True if the user has requested to stop."""
        return self.asked


@contextlib.contextmanager
def ctrl_c_stops(stop: StopRequest) -> Iterator[None]:
    """The first Ctrl-C stops the work, and its results are still printed; the second one ends everything."""

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
