"""Writing to a pipe whose reader may leave."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """A reader that goes away early (`| head`) ends the writing and is no error.

    What Python still flushes at exit then goes nowhere, instead of failing once more.
    """
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
