"""HTTP connections that limit the time and bytes of the whole exchange: head, refusals and body."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

HEAD_BYTES = 256 << 10
"""Maximum bytes of status lines and headers, also of a proxy's and interim answers (100 Continue)."""


@dataclass
class Bounds:
    """The time and bytes that one HTTP exchange may still use."""

    silence_s: float
    """Longest allowed silence of the server in seconds."""
    until: float
    """End of the whole exchange (monotonic seconds)."""
    body_bytes: int
    left: int = HEAD_BYTES

    def timeout_s(self) -> float:
        """Return how many seconds the next read may wait.

        Raises:
            TimeoutError: the time of the exchange is over.
        """
        left_s = self.until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer takes too long")
        return min(self.silence_s, left_s)

    def spend(self, count: int) -> None:
        """Count bytes that were received.

        Raises:
            OSError: they are too many.
        """
        self.left -= count
        if self.left < 0:
            raise OSError("the answer has too many headers, or too much data besides its content")

    def begin_body(self) -> None:
        """Set the byte limit of the response's body.

        A chunked body may have as many bytes around its pieces as in them.
        """
        self.left = 2 * self.body_bytes + HEAD_BYTES


class _BoundedSocket(io.RawIOBase):
    """A readable socket whose reads stay within the bounds."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        super().__init__()
        self._raw = sock.makefile("rb", buffering=0)
        self._sock, self._bounds = sock, bounds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        self._sock.settimeout(self._bounds.timeout_s())
        try:
            count = self._raw.readinto(buffer) or 0
        except TimeoutError:
            self._bounds.timeout_s()
            raise
        self._bounds.spend(count)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _response(bounds: Bounds) -> type[http.client.HTTPResponse]:
    """Return a response class for one connection, whose reads stay within the limits `bounds`."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - http.client's
            super().__init__(sock, *args, **kwargs)
            self.fp.close()
            self.fp = io.BufferedReader(_BoundedSocket(sock, bounds))

        def begin(self) -> None:
            super().begin()
            bounds.begin_body()

    return Response


class _BoundedConnections(urllib.request.AbstractHTTPHandler):
    """A mixin that gives each HTTP connection the limits of its request (attribute `bounds`)."""

    def do_open(
        self,
        http_class: Callable[..., http.client.HTTPConnection],
        req: urllib.request.Request,
        **http_conn_args: Any,  # noqa: ANN401 - urllib's
    ) -> http.client.HTTPResponse:
        def connection(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:  # noqa: ANN401 - http.client's
            made = http_class(*args, **kwargs)
            made.response_class = _response(bounds)
            return made

        bounds: Bounds = req.bounds  # type: ignore[attr-defined]  # added by `BoundedRequest`
        return super().do_open(connection, req, **http_conn_args)


class BoundedHTTP(_BoundedConnections, urllib.request.HTTPHandler):
    """urllib's handler for http, within the bounds of each request."""


class BoundedHTTPS(_BoundedConnections, urllib.request.HTTPSHandler):
    """urllib's handler for https, within the bounds of each request."""


class BoundedRequest(urllib.request.Request):
    """A urllib request with limits on the time and bytes of its exchange."""

    def __init__(self, url: str, body: bytes | None, headers: Mapping[str, str], bounds: Bounds) -> None:
        """Create a request as urllib does; POST if there is a body, else GET."""
        super().__init__(url, body, dict(headers), method="GET" if body is None else "POST")
        self.bounds = bounds
