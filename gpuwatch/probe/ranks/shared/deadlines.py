"""A time limit for calls of torch that have none of their own, or do not keep it."""

from __future__ import annotations

import threading
from typing import Callable, List, TypeVar

from gpuwatch.probe.ranks.shared import words

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """Run a call in a thread and give its result; past the time the thread is left where it hangs.

    Raises:
        TimeoutError: it did not return in time. What it holds (a store client, state) is not to be used
        again. Exception: what the call raised.
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
