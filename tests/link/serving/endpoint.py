"""A server of one page on a real socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def served(
    answer: bytes, status: int = 200, wait: threading.Event | None = None, stated: int | None = None
) -> Iterator[str]:
    """The URL of a server that gives one answer; `stated`: the length that it claims, None: the true one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if wait is not None:
                wait.wait(30)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer) if stated is None else stated))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        if wait is not None:
            wait.set()
        server.shutdown()
        server.server_close()
