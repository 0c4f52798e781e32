"""Threads that read the sockets of many connections each: one up to 100 connections, then at most three.

A thread that wakes for each packet costs more than all work on the packet: with 1,000 connections they wait
for the interpreter and for each other.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

READ_BYTES = 64 * 1024
"""Most bytes that are read from one socket before the next one's turn."""
READERS, FILLED_AT = 3, 100
"""Most threads, and sources of one from which another is started.

Each gets its share of a busy machine: beside four busy programs, samples of 300 nodes were 0.6 and 2.0 s old
(median of two runs) with one thread, 0.6 and 0.3 s with three, at the same cost.
"""
MANY_SOURCES, PAUSE_S = 16, 0.01
"""From MANY_SOURCES sockets on, the thread waits so long between two rounds, and reads several in each."""


class SharedSource(Protocol):
    """A connection that the shared thread reads."""

    def fileno(self) -> int:
        """Return the descriptor of the connection's socket."""
        ...

    def take(self, data: bytes) -> bool:
        """Process received bytes without blocking; return False to be left to a thread of its own.

        `data` is b"" for a source that was just adopted.
        """
        ...

    def resume(self) -> None:
        """Start a thread that reads the socket from now on; does not block."""
        ...


class SharedReader:
    """Reads the adopted sources in one thread, which runs while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[SharedSource] = []
        self._wake: Callable[[], object] | None = None
        """Wakes the thread; None: none runs."""
        self.size = 0
        """Number of sources."""

    def adopt(self, source: SharedSource) -> None:
        """Read a source from now on, until it returns False or its peer has closed it."""
        with self._lock:
            self._new.append(source)
            self.size += 1
            if self._wake is not None:
                self._wake()
                return
            ours, theirs = os.pipe()
            self._wake = partial(os.write, theirs, b"w")
            threading.Thread(target=self._run, args=(ours, theirs), name="ssh reader", daemon=True).start()

    def _run(self, ours: int, theirs: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(ours, selectors.EVENT_READ, None)
            while self._adopt_new(selector) or not self._ended(ours, theirs):
                for key, _ in selector.select():
                    if key.data is None:
                        os.read(ours, READ_BYTES)
                    else:
                        _read(key.fd, key.data, selector)
                if len(selector.get_map()) > MANY_SOURCES:
                    time.sleep(PAUSE_S)

    def _adopt_new(self, selector: selectors.BaseSelector) -> bool:
        """Register the new sources; return True if there are any sources."""
        with self._lock:
            new, self._new = self._new, []
        for source in new:
            # a copy: if another thread closes the socket, its number may belong to another file at once
            with contextlib.suppress(OSError):
                copy = os.dup(source.fileno())
                selector.register(copy, selectors.EVENT_READ, source)
                _pass_on(copy, source, b"", selector)
                continue
            source.resume()
        with self._lock:
            self.size = len(selector.get_map()) - 1 + len(self._new)
        return len(selector.get_map()) > 1

    def _ended(self, ours: int, theirs: int) -> bool:
        """Return False if a source was adopted meanwhile, else close the pipe and return True.

        After True the next adopted source starts another thread.
        """
        with self._lock:
            if self._new:
                return False
            self._wake = None
        os.close(ours)
        os.close(theirs)
        return True


def _read(copy: int, source: SharedSource, selector: selectors.BaseSelector) -> None:
    try:
        data = os.read(copy, READ_BYTES)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if data:
        _pass_on(copy, source, data, selector)
    else:
        _leave(copy, source, selector)


def _pass_on(copy: int, source: SharedSource, data: bytes, selector: selectors.BaseSelector) -> None:
    if not source.take(data):
        _leave(copy, source, selector)


def _leave(copy: int, source: SharedSource, selector: selectors.BaseSelector) -> None:
    selector.unregister(copy)
    os.close(copy)
    source.resume()


class SharedReaders:
    """Readers that fill up one after the other, and then share the sources evenly."""

    def __init__(self, readers: int = READERS) -> None:
        self._readers = [SharedReader() for _ in range(readers)]

    def adopt(self, source: SharedSource) -> None:
        """Give a source to the first reader with room, else to the one with the fewest sources."""
        free = (reader for reader in self._readers if reader.size < FILLED_AT)
        reader = next(free, None) or min(self._readers, key=lambda each: each.size)
        reader.adopt(source)


SHARED = SharedReaders()
"""The readers of this process's connections."""
