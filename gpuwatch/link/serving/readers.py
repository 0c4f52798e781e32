"""Reads the `/metrics` of servers: one thread per server, so that a slow one delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeAlias

from gpuwatch import __version__
from gpuwatch.hosts.plan import ServingEndpoint
from gpuwatch.link.serving.server_reading import ServerReading
from gpuwatch.number_text import limit_text

EVERY_S = 5.0
SILENCE_S, WHOLE_S = 4.0, 8.0
"""Seconds of silence of a server, and of a whole answer."""
MAX_PAGE_BYTES = 16 << 20
MAX_SERVERS = 64
Answer: TypeAlias = "tuple[str, ServerReading | str]"
"""The server's name, and its reading or the reason why there is none."""


class ServingReaders:
    """Reads inference servers at intervals. `start` it, call `drain` at any rate, `close` it."""

    def __init__(
        self,
        endpoints: Sequence[ServingEndpoint],
        clock: Callable[[], float] = time.monotonic,
        every_s: float = EVERY_S,
    ) -> None:
        self._endpoints = endpoints[:MAX_SERVERS]
        self._clock, self._every_s = clock, every_s
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start a thread for each server."""
        for endpoint in self._endpoints:
            threading.Thread(target=self._run, args=(endpoint,), name=endpoint.name, daemon=True).start()

    def drain(self) -> list[Answer]:
        """Return the answers since the last call, as (server's name, reading or reason of failure)."""
        return [self._answers.get_nowait() for _ in range(self._answers.qsize())]

    def close(self) -> None:
        """Stop the threads; one that waits for a server stops after that request."""
        self._ended.set()

    def _run(self, endpoint: ServingEndpoint) -> None:
        while not self._ended.is_set():
            self._answers.put((endpoint.name, self._read(endpoint.url)))
            self._ended.wait(self._every_s)

    def _read(self, url: str) -> ServerReading | str:
        from gpuwatch.link.serving.engines import NoEngineError, read_page  # noqa: PLC0415 - for servers only
        from gpuwatch.link.stream.bounded_http import HttpError, get, split_login  # noqa: PLC0415 - takes 30 ms

        bare, login = split_login(url)
        try:
            page = get(
                bare, {"User-Agent": f"gpuwatch/{__version__}", **login}, SILENCE_S, WHOLE_S, MAX_PAGE_BYTES
            )
        except HttpError as error:
            return str(error)
        if len(page) > MAX_PAGE_BYTES:
            return f"a page of more than {limit_text(MAX_PAGE_BYTES)}"
        if page and not page.endswith(b"\n"):  # the format ends every line so; half a page has other sums
            return "the page is cut off, or not one of metrics"
        try:
            return read_page(page.decode("utf-8", "replace"), self._clock())
        except NoEngineError as error:
            return str(error)
