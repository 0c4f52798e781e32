"""The real command in a real process."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

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


def gpuwatch(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end, stdout and stderr kept apart, no terminal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd or ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start without waiting; the caller ends it."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_a_terminal(*arguments: str, columns: int = 80, **changes: str) -> tuple[int, str]:
    """Run on a pty of that width; the exit status and everything that reached the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(**changes),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says EIO when the last writer has gone
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    return child.wait(timeout=100), written.decode()
