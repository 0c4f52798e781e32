"""What `gpuwatch run` costs beside a command: CPU of its own processes, and what the command gives up."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tests.bench.cpu import Row, shares
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
STEPS = 3_000
WORK = f"""
import resource
total = 0
for step in range(1, {STEPS} + 1):
    total += sum(range(40_000))
    print(f"step {{step}}/{STEPS} loss: {{4 / step:.4f}}", flush=True)
used = resource.getrusage(resource.RUSAGE_SELF)
open("cpu.txt", "w").write(str(used.ru_utime + used.ru_stime))
"""
PAIRS = 5


@contextlib.contextmanager
def monitored(folder: Path) -> Iterator[list[int]]:
    """A command under `gpuwatch run`; gives the pids of gpuwatch's own processes."""
    argv = [*COMMAND, "run", "--", sys.executable, "-c", TRAINING]
    with subprocess.Popen(argv, cwd=folder, env=environment(), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            share = sum(shares(own_processes(process.pid), LOOK_S))
            if share < BUSY and list(folder.glob("logs/*/*_main.log")):
                break
        yield own_processes(process.pid)
        process.terminate()


def own_processes(pid: int) -> list[int]:
    """The processes of `gpuwatch run` without the command."""
    below = psutil.Process(pid).children(recursive=True)
    return [pid, *(each.pid for each in below if TRAINING not in each.cmdline())]


def command_cpu_s(folder: Path, *before: str) -> float:
    """CPU seconds of the command itself, which computes and prints a line per step."""
    argv = [*before, sys.executable, "-c", WORK]
    subprocess.run(argv, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return float((folder / "cpu.txt").read_text())


def rows(folder: Path) -> Sequence[Row]:
    """The share of a core of gpuwatch, and the change of the command's CPU time per step."""
    with monitored(folder) as pids:
        own = sum(shares(pids, SECONDS))
    text = f"{own:.2%} of a core, {STEPS_PER_S} lines a second"
    alone = min(command_cpu_s(folder) for _ in range(PAIRS))
    under = min(command_cpu_s(folder, *COMMAND, "run", "--") for _ in range(PAIRS))
    lost = under / alone - 1
    return [
        Row("gpuwatch run beside a command", text, "<= 1 %", own <= 0.01, own),
        Row("the command's own CPU per step", f"{lost:+.2%}", "<= 0.2 %", lost <= 0.002, lost),
    ]
