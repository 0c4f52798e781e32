"""A server that answers any request with a beginning, and then goes on byte by byte without end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def dripping(beginning: bytes, drop: bytes, every_s: float = 0.02) -> Iterator[str]:
    """Its URL. `drop` follows the beginning every `every_s` seconds."""
    ended = threading.Event()

    def answer(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.recv(65_536)
            sock.sendall(beginning)
            while not ended.wait(every_s):
                sock.sendall(drop)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)
