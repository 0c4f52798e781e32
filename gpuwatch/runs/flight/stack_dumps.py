"""Reads the output of `py-spy dump` that was saved beside the logs of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gpuwatch.wire import ProcessStack, PythonThread, StackFrame

MAX_BYTES = 256 << 10
"""Most bytes of a file that are read; the main thread comes first."""
MAX_ABOVE = 3
"""Lines above a dump in which its rank may be named."""
_PROCESS = re.compile(r"Process (?P<pid>\d{1,10}): ")
_THREAD = re.compile(
    r"Thread (?:0x)?[0-9a-fA-F]{1,20} \((?P<state>[^)]{1,40})\)(?:: \"(?P<name>[^\"]{0,100})\")?"
)
_FRAME = re.compile(r"\s{2,8}(?P<name>\S{1,200}) \((?P<file>[^():]{1,300})(?::(?P<line>\d{1,9}))?\)\s*$")


_HEADING = re.compile(r"(?i)\brank[ :=_-]{0,3}(?P<rank>\d{1,6})\b")
"""Matches the rank in a line above a dump, where a file holds those of several processes."""


class SavedStack(Struct, frozen=True):
    """The stack of one process, and the rank that a line above it names; None: it names none."""

    stack: ProcessStack
    rank: int | None = None


def stacks_of(path: Path) -> list[SavedStack]:
    """Return the stacks in a saved output of py-spy, one or several; []: another file, or unreadable."""
    try:
        with path.open("rb") as file:
            lines = file.read(MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    starts = [at for at, line in enumerate(lines) if _PROCESS.match(line)]
    if not starts or starts[0] > MAX_ABOVE:
        return []
    found = []
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        stack = _stack(lines[begin:end])
        if stack is not None:
            above = [line for line in lines[max(0, begin - MAX_ABOVE) : begin] if not _FRAME.match(line)]
            named = [each for line in above if (each := _HEADING.search(line)) is not None]
            found.append(SavedStack(stack, int(named[-1]["rank"]) if named else None))
    return found


def _stack(lines: Sequence[str]) -> ProcessStack | None:
    """Return the Python threads of one process; None: there are none."""
    process = _PROCESS.match(lines[0])
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
            frames.append(StackFrame(frame["name"], _path(frame["file"]), int(frame["line"] or 0)))
    return ProcessStack(int(process["pid"]), python=threads) if threads else None


def _path(file: str) -> str:
    """Return the path of a frame's file; py-spy leaves out the folder in which a package lies."""
    return f"/{file}" if "/" in file and not file.startswith(("/", "<", ".")) else file
