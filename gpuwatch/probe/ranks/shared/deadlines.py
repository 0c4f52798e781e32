"""Limits the time of torch calls that have no limit, or ignore it."""

from __future__ import annotations

import threading
from typing import Callable, List, TypeVar

from gpuwatch.probe.ranks.shared import words

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """Run a call in a thread and return its result; on a timeout the thread is abandoned.

    Raises:
        TimeoutError: it did not return in time. The objects that it uses (a store client) must not be used
            again.
        Exception: what the call raised.
    """
    results: List[T] = []
    errors: List[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # handed to the one who waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(seconds, 0.001))
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"not done within {words.seconds(seconds)}")
    return results[0]
