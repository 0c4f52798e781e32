"""The exporter's HTTP server.

Its threads never access the session; the thread that owns the session builds the pages.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias, cast

from gpuwatch import __version__
from gpuwatch.report.exporter.connections import Connections
from gpuwatch.report.exporter.page import OPENMETRICS_TYPE, TEXT_TYPE, MetricsPage
from gpuwatch.report.exporter.web_config import WebConfig
from gpuwatch.report.output.listen_address import Endpoint, is_loopback, parse_listen, shown_host

PAGE_WAIT_S = 8.0
"""Seconds that a scrape waits for the session's owner; Prometheus's own limit is 10 s."""
SAME_PAGE_S = 1.0
"""Scrapes this close together (seconds) get the same page, which limits the load by scrapers."""
CONNECTION_S = 30.0
"""A connection without a complete request for this long is closed (seconds).

Prometheus keeps its own open.
"""
MAX_CONNECTIONS = 64
"""Maximum number of connections; a further one replaces the one that is idle for longest."""
GZIP_LEVEL = 1
ABOUT = f"gpuwatch {__version__}: /metrics for Prometheus\n".encode()
_Connection: TypeAlias = "socket.socket | tuple[bytes, socket.socket]"
"""The type that socketserver uses for accepted connections."""


class MetricsServer:
    """The metrics server. Its constructor binds the address; it serves after `start`.

    Its owner calls `answer` often, which builds the pages in the owner's thread.
    """

    def __init__(self, listen: str, config: WebConfig | None = None) -> None:
        """Bind the address.

        Raises:
            ListenError: `listen` is not a valid address.
            OSError: it cannot be bound.
        """
        self.config = config or WebConfig()
        self._asked = threading.Event()
        self._made = threading.Condition()
        self._page: MetricsPage | None = None
        self._made_at = -SAME_PAGE_S
        self._turn = 0
        self.fault = ""
        """The newest exception while building a page; that scrape gets status 503."""
        self.refused = 0
        """Number of refused connections."""
        host, port = parse_listen(listen)
        self._http = _Http((host, port), self)
        self._thread = threading.Thread(target=self._http.serve_forever, name="metrics", daemon=True)

    @property
    def url(self) -> str:
        """URL of the metrics."""
        host, port = self._http.server_address[:2]
        return f"{'https' if self.config.tls else 'http'}://{shown_host(str(host))}:{port}/metrics"

    @property
    def exposed(self) -> bool:
        """True if other machines can reach it without password or client certificate."""
        host = str(self._http.server_address[0])
        guarded = self.config.users or (self.config.tls and self.config.tls.verify_mode == ssl.CERT_REQUIRED)
        return not guarded and not is_loopback(host)

    def start(self) -> None:
        """Start serving, in separate threads."""
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Sleep for this long, or until a scrape waits for a page."""
        self._asked.wait(seconds)

    def answer(self, make: Callable[[], MetricsPage]) -> None:
        """Build a page if a scrape waits for one; an error becomes the `fault`. For the session's thread."""
        if self._asked.is_set():
            self._asked.clear()
            page = None
            try:
                page = make()
            except Exception as error:  # what one node reports must not end the metrics of the others
                self.fault = f"{type(error).__name__}: {error}"
            with self._made:
                self._page, self._made_at = page, time.monotonic()
                self._turn += 1
                self._made.notify_all()

    def page(self) -> MetricsPage | None:
        """Return a page of the last second, or wait for one; None if the owner failed to make it in time."""
        with self._made:
            if self._page is not None and time.monotonic() - self._made_at < SAME_PAGE_S:
                return self._page
            turn = self._turn
            self._asked.set()
            if self._made.wait_for(lambda: self._turn != turn, PAGE_WAIT_S):
                return self._page
            return None

    def close(self) -> None:
        """Stop serving, and close the socket."""
        if self._thread.is_alive():
            self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, at: Endpoint, metrics: MetricsServer) -> None:
        self.metrics = metrics
        self.connections = Connections(MAX_CONNECTIONS, CONNECTION_S)
        family, _, _, _, address = socket.getaddrinfo(
            at[0] or None, at[1], 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE
        )[0]
        self.address_family = family
        super().__init__(address[:2], _Handler)  # type: ignore[arg-type]  # the address has two fields or, for IPv6, four

    def process_request(self, request: _Connection, client_address: object) -> None:
        """Serve a connection in a thread, or close it if there are too many."""
        if isinstance(request, socket.socket) and self.connections.add(request, _host(client_address)):
            super().process_request(request, client_address)
        else:
            self.metrics.refused += 1
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Close overdue connections; called between connections, and twice a second."""
        self.connections.end_overdue()

    def process_request_thread(self, request: _Connection, client_address: object) -> None:
        """Serve one connection, TLS handshake included, so that a slow one does not block others."""
        line = cast("socket.socket", request)
        try:
            tls = self.metrics.config.tls
            if tls is not None:
                line.settimeout(CONNECTION_S)
                secured = tls.wrap_socket(line, server_side=True, do_handshake_on_connect=False)
                self.connections.replace(line, secured)
                line = secured
                secured.do_handshake()
            super().process_request_thread(line, client_address)
        except OSError:
            self.shutdown_request(line)  # no TLS, or a client that left
        finally:
            self.connections.remove(line)

    def handle_error(self, request: _Connection, client_address: object) -> None:
        """Ignore errors: clients may disconnect at any time."""


def _host(client_address: object) -> str:
    return str(client_address[0]) if isinstance(client_address, tuple) else ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = CONNECTION_S
    server: _Http

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        self.server.connections.note(self.connection, is_answered=False)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Parse the head of a request, and note that its connection has sent one.

        Return False if it was invalid, and answered; also for an empty first line, without an answer.
        """
        is_whole = super().parse_request()
        self.server.connections.note(self.connection, is_answered=True)
        return is_whole

    def do_GET(self) -> None:
        """Serve metrics at /metrics, and one line at /; 401 without a valid login, 404 elsewhere."""
        metrics, path = self.server.metrics, self.path.partition("?")[0]
        if not metrics.config.allows(self.headers.get("Authorization"), _host(self.client_address)):
            self.close_connection = True  # a further guess takes a further connection
            self._send(
                401, b"a user and password are needed\n", **{"WWW-Authenticate": 'Basic realm="gpuwatch"'}
            )
        elif path == "/metrics":
            self._metrics()
        elif path == "/":
            self._send(200, ABOUT)
        else:
            self._send(404, b"not found; see /metrics\n")

    def do_HEAD(self) -> None:
        """Answer as GET does, without the body."""
        self.do_GET()

    def _metrics(self) -> None:
        page = self.server.metrics.page()
        if page is None:
            self._send(
                503, b"no page: the session did not answer in time, or had a fault\n", **{"Retry-After": "5"}
            )
            return
        openmetrics = "application/openmetrics-text" in self.headers.get("Accept", "")
        body, headers = page.text(openmetrics=openmetrics), {}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body, headers = gzip.compress(body, GZIP_LEVEL), {"Content-Encoding": "gzip"}
        self._send(200, body, OPENMETRICS_TYPE if openmetrics else TEXT_TYPE, **headers)

    def _send(
        self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8", **headers: str
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.server.connections.note(self.connection, is_answered=True, is_sent=True)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
        """Log nothing."""

    def version_string(self) -> str:
        """Return the value of the `Server` header, without the version of Python."""
        return "gpuwatch"
