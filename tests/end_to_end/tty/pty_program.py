"""A program on a pseudo terminal of ours, every byte that it writes kept."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable

from tests.end_to_end.tty.terminal import ROOT


class Pty:
    """Started at once; `end` it."""

    def __init__(self, argv: list[str]) -> None:
        self.written = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(  # noqa: S606 - the child of the pty becomes the program
                argv[0],
                argv,
                {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"},
            )
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 180, 0, 0))

    @property
    def readable(self) -> bool:
        """Whether it has written something that was not read."""
        return bool(select.select([self.fd], [], [], 0.0)[0])

    def read_until(self, done: Callable[[bytes], bool], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not done(self.written):
            assert time.monotonic() < deadline, self.written[-3000:]
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.written += os.read(self.fd, 65536)
                except OSError:  # Linux's way to say that the other side is closed
                    return

    def end(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        self.read_until(
            lambda _: os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        )
        os.close(self.fd)
        return os.waitpid(self.pid, 0)[1]
