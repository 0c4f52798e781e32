"""The real command in a real process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.cli.fork_server import Call, forked
from tests.workers.isolation import own_processes

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "gpuwatch")


def environment(**changes: str) -> dict[str, str]:
    """Ours, without what would colour or widen the output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}
    }
    return {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **changes}


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    changes: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end, stdout and stderr kept apart, no terminal; `changes`: to the environment."""
    return subprocess.run(
        command,
        cwd=cwd or ROOT,
        env=environment(**changes or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def gpuwatch(
    *arguments: str, cwd: Path | None = None, changes: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command as `run` does, in a process that is forked from one with all imports done."""
    return run_forked(Call(arguments, str(cwd or ROOT), environment(**changes or {})))


def alone(
    *arguments: str, cwd: Path | None = None, changes: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """As `gpuwatch`, but it sees no process of another test: only itself and what it starts.

    Where a process cannot get a namespace of its own (a container that forbids it), it sees all.
    """
    if os.geteuid() == 0 and own_processes():
        return run_forked(Call(arguments, str(cwd or ROOT), environment(**changes or {}), own_processes=True))
    return run([*own_processes(), *COMMAND, *arguments], cwd=cwd, changes=changes)


def run_forked(call: Call) -> subprocess.CompletedProcess[str]:
    """Run to the end, stdout and stderr kept apart, no terminal."""
    with (
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
        Path(os.devnull).open() as null,
    ):
        status = forked(call, (null.fileno(), stdout.fileno(), stderr.fileno())).wait(timeout=100)
        texts = []
        for each in (stdout, stderr):
            each.seek(0)
            texts.append(each.read().decode())
    return subprocess.CompletedProcess([*COMMAND, *call.arguments], status, *texts)


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start without waiting; the caller ends it.

    A shell's background ignores Ctrl-C, and children inherit that; what we handle ourselves they do not.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def terminal(columns: int = 80) -> Iterator[tuple[int, int]]:
    """A pty of that width: our end and the child's."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(terminal_end: int, word: str) -> str:
    """Everything that is written up to and with the word; pytest's timeout ends a wait in vain."""
    shown = bytearray()
    while word.encode() not in shown:
        shown += os.read(terminal_end, 65536)
    return shown.decode()


def interrupted_at(word: str, *arguments: str, columns: int = 120) -> tuple[int, str]:
    """Ctrl-C when the word stands on stderr, a terminal of that width; the exit status and stdout."""
    with terminal(columns) as (ours, theirs):
        child = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        try:
            read_until(ours, word)
            child.send_signal(signal.SIGINT)
            written, _ = child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
    return child.returncode, written


def on_a_terminal(*arguments: str, columns: int = 80, **changes: str) -> tuple[int, str]:
    """Run on a pty of that width; the exit status and everything that reached the terminal."""
    written = bytearray()
    with terminal(columns) as (ours, theirs):
        command = forked(Call(arguments, str(ROOT), environment(**changes)), (theirs, theirs, theirs))
        while (status := command.poll()) is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.05)[0]:
                written += os.read(ours, 65536)
    return status, written.decode()
