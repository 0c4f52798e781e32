"""Reads the output of `py-spy dump` that was saved beside the logs of a job."""

from __future__ import annotations

import re
from pathlib import Path

from gpuwatch.wire import ProcessStack, PythonThread, StackFrame

MAX_BYTES = 256 << 10
"""Most bytes of a file that are read; the main thread comes first."""
_PROCESS = re.compile(r"Process (?P<pid>\d{1,10}): ")
_THREAD = re.compile(
    r"Thread (?:0x)?[0-9a-fA-F]{1,20} \((?P<state>[^)]{1,40})\)(?:: \"(?P<name>[^\"]{0,100})\")?"
)
_FRAME = re.compile(r"\s{2,8}(?P<name>\S{1,200}) \((?P<file>[^():]{1,300})(?::(?P<line>\d{1,9}))?\)\s*$")


def stack_of(path: Path) -> ProcessStack | None:
    """Return the Python threads in a saved output of py-spy; None: another file, or unreadable."""
    try:
        with path.open("rb") as file:
            lines = file.read(MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    process = _PROCESS.match(lines[0]) if lines else None
    if process is None:
        return None
    threads: list[PythonThread] = []
    frames: list[StackFrame] = []
    for line in lines[1:]:
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        if thread is not None:
            frames = []
            state, name = thread["state"], thread["name"] or ""
            threads.append(
                PythonThread(name, name == "MainThread", "active" in state, "gil" in state, frames=frames)
            )
        elif frame is not None:
            frames.append(StackFrame(frame["name"], frame["file"], int(frame["line"] or 0)))
    return ProcessStack(int(process["pid"]), python=threads) if threads else None
