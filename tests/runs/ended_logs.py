"""Logs of steps as a job that has ended leaves them, and the report of a scan of their folder."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

START = 1_772_582_400.0
"""2026-03-04 00:00:00 UTC, the time of the first step in these logs."""
LATER = START + 1e6


def step_line(step: int, total: int | None, loss: object = "2.05", *, prefix: str = "") -> str:
    of = "" if total is None else f"/{total}"
    clock = f"2026-03-04 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}Z"
    return f"{prefix}{clock} INFO step {step}{of} loss {loss} lr 1e-4\n"


def steps(last: int, total: int | None, first: int = 1, **more: str) -> str:
    return "".join(
        step_line(step, total, f"{2 + step % 11 / 100:.2f}", **more) for step in range(first, last + 1)
    )


def report(folder: Path, now: float = LATER) -> ScanReport:
    packs = load_packs()
    return judged(scan(gather([folder]), packs.all, "agent", cores=1), packs, now, 0.1)
