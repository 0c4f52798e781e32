"""What a person waits for: `--version`, and the first paint of `--local`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.cpu import Row, cpu_s
from tests.end_to_end.cluster import ROOT
from tests.end_to_end.tty.pty_program import Pty

RUNS = 7


def version_cpu_s() -> float:
    """User and system seconds of `gpuwatch --version`, the best of some runs."""
    best = float("inf")
    for _ in range(RUNS):
        before = os.times()
        argv = [sys.executable, "-m", "gpuwatch", "--version"]
        subprocess.run(argv, check=True, capture_output=True, cwd=ROOT)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, spent)
    return best


def first_paint_cpu_s() -> float:
    """CPU of the cockpit itself until this machine's name stands on the screen, the best of some runs."""
    best = float("inf")
    for _ in range(RUNS):
        program = Pty([sys.executable, "-m", "gpuwatch", "--local"])
        program.read_until(lambda seen: b"nodes" in seen)
        best = min(best, cpu_s(program.pid))
        program.end()
    return best


def rows(_folder: Path) -> Sequence[Row]:
    """The start's lines of the table."""
    version, paint = version_cpu_s(), first_paint_cpu_s()
    return [
        Row("`gpuwatch --version`", f"{version * 1e3:.0f} ms CPU", "<= 100 ms", version <= 0.1, version),
        Row(
            "first paint of `gpuwatch --local`", f"{paint * 1e3:.0f} ms CPU", "<= 500 ms", paint <= 0.5, paint
        ),
    ]
