"""Starts the command as it would run alone: on a pty if there is a terminal, else on pipes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pty
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

STREAMS = (0, 1, 2)
PR_SET_PDEATHSIG = 1
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
"""The function `prctl` of the C library, looked up before the fork because the child must not do it."""


@dataclass
class RunChild:
    """The running command, and the descriptors of its output."""

    pid: int
    master: int | None
    """Our end of the command's pty; None: neither stdout nor stderr is a terminal."""
    outputs: dict[int, int] = field(default_factory=dict)
    """Descriptor to read -> our stream (1 or 2) that receives its bytes."""
    began: float = field(default_factory=time.monotonic)
    duration_s: float = 0.0
    status: int | None = None
    """The status from `os.waitpid` after the command's end; None before."""

    @property
    def has_ended(self) -> bool:
        """True if `poll` has seen the command's end; it does not check again."""
        return self.status is not None

    def poll(self) -> bool:
        """Check once whether the command has ended, and record its status.

        Return True if it was stopped (SIGSTOP).
        """
        if self.status is not None:
            return False
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            return True
        if pid:
            self.status = status
            self.duration_s = time.monotonic() - self.began
        return False

    def send(self, number: int) -> None:
        """Send the command a signal; does nothing after its end."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def send_to_group(self, number: int) -> None:
        """Send a signal to the foreground processes of the command's pty.

        Without a pty, only to the command.
        """
        if self.master is None:
            self.send(number)
            return
        with contextlib.suppress(OSError):
            os.killpg(os.tcgetpgrp(self.master), number)


def start_child(argv: Sequence[str], env: Mapping[str, str]) -> RunChild:
    """Start the command: on a pty if stdout or stderr is a terminal, with pipes for the other outputs.

    stdin is the pty too if it is a terminal; it is inherited if it is none, or if there is no pty.

    Raises:
        OSError: The command cannot be started.
    """
    writes_to_terminal = os.isatty(1) or os.isatty(2)
    master, slave = open_pty() if writes_to_terminal else (None, None)
    given: list[int | None] = [None, None, None]
    outputs: dict[int, int] = {}
    ends: list[int] = []
    if slave is not None:
        given = [slave if os.isatty(stream) else None for stream in STREAMS]
        ends.append(slave)
    shared = os.path.sameopenfile(1, 2)
    for stream in (1, 2):
        if given[stream] is None:
            if stream == 2 and shared and given[1] is not None:
                given[2] = given[1]
                continue
            reading, writing = os.pipe()
            outputs[reading] = stream
            ends.append(writing)
            given[stream] = writing

    def prepare() -> None:
        end_with_parent()
        if slave is not None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    try:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=given[0],
            stdout=given[1],
            stderr=given[2],
            close_fds=False,  # what the caller passed on reaches the command
            restore_signals=True,
            preexec_fn=prepare,  # noqa: PLW1509 - there are no threads yet
        )
    except BaseException:
        for number in (*outputs, *([] if master is None else [master])):
            os.close(number)
        raise
    finally:
        for number in ends:
            os.close(number)
    process.returncode = 0  # `RunChild.look` waits for it: Popen shall not
    return RunChild(process.pid, master, outputs)


def end_with_parent() -> None:
    """Ask the kernel to kill this process, the child, when its parent dies, even by SIGKILL (Linux only)."""
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def open_pty() -> tuple[int, int]:
    """Return (our end, the command's end) of a new pty with the settings and size of our terminal."""
    master, slave = pty.openpty()
    with contextlib.suppress(termios.error):
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(terminal_stream()))
    copy_size(master)
    return master, slave


def copy_size(master: int) -> None:
    """Give the pty the size of our terminal; if it changes, the kernel sends SIGWINCH to the command."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(terminal_stream(), termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)


def terminal_stream() -> int:
    """Return the first of our streams 0, 1, 2 that is a terminal; 0 if none is."""
    return next((stream for stream in STREAMS if os.isatty(stream)), 0)
