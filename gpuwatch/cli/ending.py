"""Being told to leave: TERM and a closed terminal end a command as politely as Ctrl-C does."""

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
