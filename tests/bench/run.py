"""What `gpuwatch run` costs beside a command: CPU of its own processes, and what the command gives up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tests.bench.cpu import Row, shares
from tests.bench.paired import Comparison, compared
from tests.cli.running import COMMAND, environment

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
BLOCK_S, CATCH_UP_S, PAIRS = 2.0, 1.0, 40
"""Seconds of a block, which has one or two samples of gpuwatch; seconds after its processes were stopped."""
WORK = f"""
import sys, time
own = open(sys.argv[2], "w")
for order in sys.stdin:
    output = own if order == "alone\\n" else sys.stdout
    began, cpu, steps = time.monotonic(), time.process_time_ns(), 0
    while time.monotonic() < began + {BLOCK_S}:
        sum(range(1_500_000))
        steps += 1
        print(f"step {{steps}}/1000 loss: {{4 / steps:.4f}} lr: 0.01", file=output, flush=True)
    used, took = time.process_time_ns() - cpu, time.monotonic() - began
    with open(sys.argv[1], "a") as file:
        file.write(f"{{used / 1e9 / steps}} {{took / steps}}\\n")
"""
"""Computes with a line for each of about 20 steps a second, a block for each line of its input; `alone`: the
lines go into a file, as they do without gpuwatch."""


@contextlib.contextmanager
def monitored(folder: Path) -> Iterator[list[int]]:
    """A command under `gpuwatch run`; gives the pids of gpuwatch's own processes."""
    argv = [*COMMAND, "run", "--", sys.executable, "-c", TRAINING]
    with subprocess.Popen(argv, cwd=folder, env=environment(), stdout=subprocess.DEVNULL) as process:
        settle(process.pid, folder)
        yield own_processes(process.pid)
        process.terminate()


def settle(pid: int, folder: Path) -> None:
    """Wait until gpuwatch does no more than it does all the time."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        share = sum(shares(own_processes(pid), LOOK_S))
        if share < BUSY and list(folder.glob("logs/*/*_main.log")):
            break


def own_processes(pid: int) -> list[int]:
    """The processes of `gpuwatch run` without the command."""
    below = psutil.Process(pid).children(recursive=True)
    return [pid, *(each.pid for each in below if not {TRAINING, WORK} & set(each.cmdline()))]


class Worker:
    """A command under `gpuwatch run` that computes a block when it is told, and states what a step took."""

    def __init__(self, folder: Path) -> None:
        self._answers = folder / "answers.txt"
        self._answers.touch()
        argv = [
            *COMMAND,
            "run",
            "--",
            sys.executable,
            "-c",
            WORK,
            str(self._answers),
            str(folder / "own.log"),
        ]
        with (folder / "output.log").open("wb") as output:
            self.process = subprocess.Popen(
                argv, cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=output, text=True
            )

    def block(self, order: str) -> tuple[float, float]:
        """CPU seconds and seconds of a step in one block."""
        known = self._answers.stat().st_size
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        while self._answers.stat().st_size == known:
            time.sleep(0.01)
        cpu_s, took_s = self._answers.read_text().splitlines()[-1].split()
        return float(cpu_s), float(took_s)

    def end(self) -> None:
        self.process.communicate()


@contextlib.contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Processes that do nothing for a while, and then catch up."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(CATCH_UP_S)


def what_a_step_gives_up(folder: Path, pairs: int = PAIRS) -> tuple[Comparison, Comparison]:
    """The change of a step's CPU time and of its whole time under `gpuwatch run`.

    One process works in both kinds of blocks, in changing order: two processes of one program differ by some
    percent, by where their memory lies. In the blocks alone the processes of gpuwatch are stopped.
    """
    worker = Worker(folder)
    worker.block("under")
    settle(worker.process.pid, folder)
    own = own_processes(worker.process.pid)
    found: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for number in range(pairs):
        first = worker.block("under") if number % 2 else None
        with stopped(own):
            alone = worker.block("alone")
        found.append((alone, first or worker.block("under")))
    worker.end()
    cpu, took = ([(plain[part], watched[part]) for plain, watched in found] for part in (0, 1))
    return compared(cpu), compared(took)


def rows(folder: Path) -> Sequence[Row]:
    """The share of a core of gpuwatch, and the change of the command's time per step."""
    with monitored(folder) as pids:
        own = sum(shares(pids, SECONDS))
    text = f"{own:.2%} of a core, {STEPS_PER_S} lines a second"
    beside = folder / "beside"
    beside.mkdir()
    cpu, took = what_a_step_gives_up(beside)
    return [
        Row("gpuwatch run beside a command", text, "<= 1 %", own <= 0.01, own),
        Row("the command's own CPU per step", cpu.text, "<= 0.2 %", cpu.is_at_most(0.002), cpu.change),
        Row("the command's time per step", took.text, "<= 0.2 %", took.is_at_most(0.002), took.change),
    ]
