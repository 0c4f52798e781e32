"""Stacks of single processes as text and data: those named by `--pid`, or on a GPU without a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.hang.stacks.kernel_waits import kernel_wait
from gpuwatch.diagnose.hang.stacks.locations import line, place_of
from gpuwatch.plain import plain
from gpuwatch.report.incidents.json_output import Facts
from gpuwatch.wire import ProcessStack, PythonThread

SHOWN_FRAMES = 12


class SeenProcess(Struct, frozen=True):
    """A process on a node with its current stack. If `stack` is None, `missing` may state why."""

    node: str
    pid: int
    name: str | None = None
    gpus: tuple[int, ...] = ()
    """Indexes of the GPUs that it holds."""
    stack: ProcessStack | None = None
    missing: str | None = None

    @property
    def main(self) -> PythonThread | None:
        """The main thread of the process; None if its frames are unknown."""
        python = self.stack.python if self.stack is not None else []
        return next((thread for thread in python if thread.main and thread.frames), None)

    @property
    def what(self) -> str | None:
        """The location as text, `in next_batch (data.py:9)` or `asleep (clock_nanosleep)`; None: unknown."""
        if self.main is not None:
            return place_of(self.main.frames)[0]
        threads = self.stack.threads if self.stack is not None else []
        return kernel_wait(threads[0])[0] if threads else None


def process_lines(seen: Iterable[SeenProcess]) -> Iterator[Line]:
    """Yield report lines with the location of each process, or why it is unknown, and innermost frames."""
    for each in seen:
        gpus = f" GPU {', '.join(map(str, each.gpus))}" if each.gpus else ""
        who = f"process {each.pid}{f' ({each.name})' if each.name else ''} on {each.node}{gpus}"
        if each.what is None:
            yield Line(plain(f"{who}: {each.missing or 'no reason given'}"), "warning")
            continue
        yield Line(plain(f"{who} is {each.what}"))
        for frame in each.main.frames[:SHOWN_FRAMES] if each.main is not None else ():
            yield Line(plain(f"          {line(frame)}"), "muted")
        if each.main is None and each.stack is not None and each.stack.why:
            yield Line(plain(f"          without Python stacks: {each.stack.why}"))


def process_facts(seen: SeenProcess) -> Facts:
    """Return one process as plain data."""
    stack = seen.stack
    return {
        "node": seen.node,
        "pid": seen.pid,
        "name": None if seen.name is None else plain(seen.name),
        "gpus": list(seen.gpus),
        "what": None if seen.what is None else plain(seen.what),
        "frames": [plain(line(frame)) for frame in seen.main.frames] if seen.main is not None else [],
        "cpu_pct": None if stack is None else stack.cpu_pct,
        "threads": [] if stack is None else sorted({plain(each.name) for each in stack.threads}),
        "without_python": None if stack is None else stack.why,
        "why": seen.missing,
    }
