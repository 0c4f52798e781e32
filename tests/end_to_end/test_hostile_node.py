"""No byte of a remote string reaches the terminal as a command, checked on a real pty."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.terminal import ROOT

STEERING = [
    b"\x1b]0;PWNED",
    b"\x1b]52;c;UFdORUQ",
    b"\x1b[2JPWNED",
    b"\x9b31m",
    "\x9b".encode(),
    "\u202e".encode(),
    "\u2066".encode(),
]


class Pty:
    """gpuwatch on a pseudo terminal, every byte it writes kept."""

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

    def read_until(self, done: Callable[[bytes], bool], seconds: float = 40.0) -> None:
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


def test_a_hostile_node_cannot_steer_the_terminal(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    command = [sys.executable, str(Path(__file__).with_name("hostile_agent.py"))]
    hosts.write_text(f"hosts:\n  - name: evil\n    link: {{command: {command}}}\n")
    program = Pty([sys.executable, "-m", "gpuwatch", str(hosts)])
    try:
        program.read_until(lambda seen: b"PWNED" in seen)
        for key in (b"\r", b"\r", b"-", b"1", b"!", b"!", b"\t", b"\r"):
            before = len(program.written)
            os.write(program.fd, key)
            program.read_until(lambda seen, before=before: len(seen) > before + 200)  # type: ignore[misc]
    finally:
        program.end()
    assert b"PWNED" in program.written, "the text itself is shown"
    for attack in STEERING:
        assert attack not in program.written, attack
