"""What `gpuwatch run` costs beside a command: CPU of its own processes, and what the command gives up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from tests.bench.cpu import Row, shares
from tests.bench.paired import Comparison, compared
from tests.cli.running import COMMAND, environment
from tests.end_to_end.cluster import ROOT

SECONDS = 60.0
SETTLE_S, LOOK_S, BUSY = 240.0, 5.0, 0.03
"""Most seconds until the rules are compiled, the agent runs and the backlog is read; that is so once one look
of some seconds, after the first steps were read, found less than this share of a core."""
STEPS_PER_S = 20
TRAINING = f"""
import time
step, began = 0, time.monotonic()
while True:
    step += 1
    print(f"step {{step}}/100000 loss: {{4 / step:.4f}} lr: 0.01", flush=True)
    time.sleep(max(0.0, began + step / {STEPS_PER_S} - time.monotonic()))
"""
RECORDERS = 16
"""Recorders that watch one command, so that what they cost it stands out of the machine's noise."""
BLOCK_S, CATCH_UP_S, PAIRS = 1.0, 0.5, 80
"""Seconds of a block; seconds after the recorders were stopped; pairs of blocks."""
BUSY_CORES = 8
"""Cores of a small GPU node; where the command keeps all of them busy, it loses gpuwatch's CPU time."""
WORK = f"""
import sys, time
own, numbers = open(sys.argv[2], "w"), list(range(25_000))
for order in sys.stdin:
    output = own if order == "alone\\n" else sys.stdout
    began, cpu, steps = time.monotonic(), time.process_time_ns(), 0
    while time.monotonic() < began + {BLOCK_S}:
        for _ in range(200):
            sum(numbers)
        steps += 1
        for line in range({RECORDERS}):
            print(f"step {{steps}}/1000 loss: {{4 / steps:.4f}} lr: 0.01", file=output, flush=True)
    used = time.process_time_ns() - cpu
    with open(sys.argv[1], "a") as file:
        file.write(f"{{used / 1e9 / steps}}\\n")
"""
"""Sums numbers that fill a core's cache, with a line for each recorder at each of about 20 steps a second, a
block for each line of its input; `alone`: the lines go into a file, as they do without gpuwatch."""


@contextlib.contextmanager
def monitored(folder: Path) -> Iterator[list[int]]:
    """A command under `gpuwatch run`; gives the pids of gpuwatch's own processes."""
    argv = [*COMMAND, "run", "--", sys.executable, "-c", TRAINING]
    with subprocess.Popen(argv, cwd=folder, env=environment(), stdout=subprocess.DEVNULL) as process:
        settle(process.pid, folder)
        yield own_processes(process.pid)
        process.terminate()


def settle(pid: int, folder: Path, busy: float = BUSY) -> None:
    """Wait until gpuwatch does no more than it does all the time."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        share = sum(shares(own_processes(pid), LOOK_S))
        if share < busy and any(folder.rglob("training_*_main.log")):
            break


def own_processes(pid: int) -> list[int]:
    """The processes of `gpuwatch run` without the command."""
    below = psutil.Process(pid).children(recursive=True)
    return [pid, *(each.pid for each in below if not {TRAINING, WORK} & set(each.cmdline()))]


class Worker:
    """A command under several recorders; it computes a block when it is told and states what a step took."""

    def __init__(self, folder: Path, recorders: int) -> None:
        self._answers = folder / "answers.txt"
        self._answers.touch()
        work = [sys.executable, "-c", WORK, str(self._answers), str(folder / "own.log")]
        argv = [sys.executable, "-m", "tests.bench.training.recorders", str(folder), str(recorders), *work]
        with (folder / "output.log").open("wb") as output:
            self.process = subprocess.Popen(
                argv, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=output, text=True
            )

    def block(self, order: str) -> float:
        """CPU seconds of a step in one block."""
        known = self._answers.stat().st_size
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        while self._answers.stat().st_size == known:
            time.sleep(0.01)
        return float(self._answers.read_text().splitlines()[-1])

    def recorders(self) -> list[int]:
        """The pids of the recorders and their agents."""
        return own_processes(self.process.pid)[1:]

    def end(self) -> None:
        """End the command and the recorders, whose sessions nobody wants."""
        pids = self.recorders()
        self.process.communicate()
        send(signal.SIGKILL, pids)


@contextlib.contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Processes that do nothing for a while, and then catch up."""
    send(signal.SIGSTOP, pids)
    try:
        yield
    finally:
        send(signal.SIGCONT, pids)
        time.sleep(CATCH_UP_S)


def send(number: signal.Signals, pids: Sequence[int]) -> None:
    """Send a signal to those of the processes that have not ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def what_a_step_gives_up(folder: Path, pairs: int = PAIRS, recorders: int = RECORDERS) -> Comparison:
    """The change of a step's CPU time by one recorder: that by several, over their number.

    It holds what the command's own work costs more: writing to a pipe, and the caches that others have used.
    One process works in both kinds of blocks, in changing order: two processes of one program differ by some
    percent, by where their memory lies. In the blocks alone the recorders are stopped.
    """
    worker = Worker(folder, recorders)
    while len(list(folder.rglob("training_*_main.log"))) < recorders:  # each has read a step
        worker.block("under")
    settle(worker.process.pid, folder, BUSY * recorders)
    found: list[tuple[float, float]] = []
    for number in range(pairs):
        first = worker.block("under") if number % 2 else None
        with stopped(worker.recorders()):
            alone = worker.block("alone")
        found.append((alone, first or worker.block("under")))
    worker.end()
    return compared(found).over(recorders)


def rows(folder: Path) -> Sequence[Row]:
    """The share of a core of gpuwatch, and what the command gives up."""
    with monitored(folder) as pids:
        own = sum(shares(pids, SECONDS))
    text = f"{own:.2%} of a core, {STEPS_PER_S} lines a second"
    beside = folder / "beside"
    beside.mkdir()
    cost = what_a_step_gives_up(beside)
    lost = replace(
        cost, **{name: getattr(cost, name) + own / BUSY_CORES for name in ("change", "low", "high")}
    )
    return [
        Row("gpuwatch run beside a command", text, "<= 1 %", own <= 0.01, own),
        Row("the command's own CPU per step", cost.text, "<= 0.2 %", cost.is_at_most(0.002), cost.change),
        Row(
            f"throughput lost where all of {BUSY_CORES} cores are busy",
            lost.text,
            "<= 0.2 %",
            lost.is_at_most(0.002),
            lost.change,
        ),
    ]
