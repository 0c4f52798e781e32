"""Handles requests to end a command: Ctrl-C, TERM and HUP."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def leaving_politely() -> Iterator[None]:
    """Within this context TERM and HUP raise SystemExit(128 + signal), so that links are closed."""
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(number: int, _frame: FrameType | None) -> None:
    """Signal handler: raise SystemExit(128 + number)."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def ended_by_signal() -> Iterator[None]:
    """Within this context, Ctrl-C and TERM end a service normally; neither is an error for its caller."""
    try:
        with leaving_politely():
            yield
    except KeyboardInterrupt:
        pass
    except SystemExit as end:
        if end.code != 128 + signal.SIGTERM:
            raise


class StopRequest:
    """The state of a request to stop: `asked` is True after it, and so is the value of a call."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked


@contextlib.contextmanager
def ctrl_c_stops(stop: StopRequest) -> Iterator[None]:
    """Within this context the first Ctrl-C sets `stop.asked`; the second raises KeyboardInterrupt."""

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
