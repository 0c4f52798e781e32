"""Child processes that serve the screens over a folder: one reads pages, one searches, one judges."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import Any

from gpuwatch.agent.logs.ipc.lifeline import die_with
from gpuwatch.own_process import worker_context
from gpuwatch.runs.scan.workers import HOW
from gpuwatch.session.log_folder.line_server import LineServer
from gpuwatch.session.log_folder.search_server import SearchServer
from gpuwatch.wire import Cancel, ReadLines, Search, Tail

READERS = 4
"""Number of concurrent page reads, so that a large compressed file does not block the others."""
FOLLOW_S = 0.5
"""Seconds between two checks of files with a tail."""
STEP_S = 0.25
END_S = 1.0
"""Seconds to wait for a process to exit by itself."""


class FolderProcess:
    """A child process with a pipe. Create it before any thread is started."""

    def __init__(self, serve: Callable[..., None], *arguments: object) -> None:
        """Start the process; `serve` receives the pipe, the pid of this process and the arguments."""
        context = worker_context(HOW)
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, os.getpid(), *arguments))
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """True while the child process runs."""
        return bool(self._process.is_alive())

    def send(self, message: object) -> bool:
        """Send a message to the process; return False if the process has ended."""
        try:
            self.pipe.send(message)
        except (OSError, ValueError):
            return False
        return True

    def close(self) -> None:
        """Stop the process and all processes that it started."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(END_S)


def become_child(parent: int) -> None:
    """Ignore Ctrl-C (the parent handles it), exit on SIGTERM, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        die_with(parent)


def serve_lines(pipe: Connection, parent: int) -> None:
    """Serve `Tail`, `ReadLines` and `Cancel` until the pipe is closed.

    A list of `LogPath` replaces the files.
    """
    become_child(parent)
    lock = threading.Lock()

    def send(frame: bytes) -> None:
        with lock:
            pipe.send_bytes(frame)

    server = LineServer(send)
    pool = ThreadPoolExecutor(READERS)
    followed = time.monotonic()
    try:
        while True:
            if pipe.poll(FOLLOW_S):
                message = pipe.recv()
                if isinstance(message, list):
                    server.take_files(message)
                elif isinstance(message, Cancel):
                    server.cancel(message.of)
                elif isinstance(message, Tail | ReadLines):
                    pool.submit(server.answer, message)
            now = time.monotonic()
            if now - followed >= FOLLOW_S:
                followed = now
                pool.submit(server.follow, now, time.time())
    except (EOFError, OSError):
        os._exit(0)  # the parent is gone; a thread may still read a file


def serve_searches(pipe: Connection, parent: int) -> None:
    """Serve `Search` and `Cancel` until the pipe is closed; a list of `LogPath` replaces the files."""
    become_child(parent)

    def send(frame: dict[str, Any] | str) -> None:
        pipe.send_bytes((frame if isinstance(frame, str) else json.dumps(frame)).encode())

    server = SearchServer(send)
    try:
        while True:
            ready = wait([pipe, *server.descriptors], STEP_S)
            if pipe in ready:
                message = pipe.recv()
                if isinstance(message, list):
                    server.take_files(message)
                elif isinstance(message, Search):
                    server.begin(message)
                elif isinstance(message, Cancel):
                    server.cancel(message.of)
            server.step()
    except (EOFError, OSError):
        server.close()
