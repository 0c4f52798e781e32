"""Waiting for what a link brings, and counting what it leaves behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

from gpuwatch.link.stream.inbox import Arrival, Inbox, LinkStatus

PATIENCE_S = 240.0
T = TypeVar("T")


def until(condition: Callable[[], T], what: str) -> T:
    """Wait until the condition is true and return what it gave."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it never came: {what}"
        time.sleep(0.01)
    return value


class Watcher:
    """Keeps everything that came into an inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.seen: list[Arrival] = []

    def drain(self) -> list[Arrival]:
        self.seen += self.inbox.drain()
        return self.seen

    def next(self, kind: type[T], match: Callable[[T], bool] = lambda _: True, node: str | None = None) -> T:
        """Wait for the first one of this kind that was not returned before, forgetting those before it."""

        def found() -> tuple[int, T] | None:
            for index, arrival in enumerate(self.drain()):
                content = arrival.what
                if isinstance(content, kind) and (node is None or arrival.node == node) and match(content):
                    return index, content
            return None

        hit = until(found, f"{kind.__name__}; seen: {[arrival.what for arrival in self.seen[-5:]]}")
        assert hit is not None
        index, content = hit
        del self.seen[: index + 1]
        return content

    def lost(self) -> LinkStatus:
        return self.next(LinkStatus, lambda status: status.phase == "lost")

    def live(self) -> LinkStatus:
        return self.next(LinkStatus, lambda status: status.phase == "live")


def holdings() -> tuple[set[int], int, set[int]]:
    threads = {thread.ident or 0 for thread in threading.enumerate()}
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return threads, descriptors, {child.pid for child in _children()}


def _children() -> Iterator[psutil.Process]:
    for child in psutil.Process(os.getpid()).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name() != "sshd":  # the test's own server; what runs under it counts
                yield child


@contextmanager
def nothing_left() -> Iterator[None]:
    """No thread, descriptor or child process more than before."""
    threads, descriptors, children = holdings()
    yield

    def clean() -> bool:
        now = holdings()
        return now[0] <= threads and now[1] <= descriptors and now[2] <= children

    until(
        clean,
        f"nothing left; there are {threading.enumerate()} and {list(_children())}",
    )
