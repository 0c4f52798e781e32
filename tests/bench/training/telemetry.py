"""What the library costs a training: its import, a timer, and a step of 10 ms with everything on."""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpuwatch.telemetry import DistributedTracer, TelemetrySettings, TelemetryTracker, setup_rank_logging
from gpuwatch.telemetry.session.recorder import WRITE_AT_LINE_S
from tests.bench.cpu import Row
from tests.end_to_end.cluster import ROOT

RUNS, TIMERS, STEPS = 7, 20_000, 2_000
STEP_S = 0.010


def import_cpu_s() -> float:
    """CPU of the import beyond that of an empty program, the best of some runs."""
    return program_cpu_s("import gpuwatch.telemetry") - program_cpu_s("pass")


def tracker_import_cpu_s() -> float:
    """The same of the names that a script uses."""
    return program_cpu_s(
        "from gpuwatch.telemetry import TelemetryTracker, setup_rank_logging"
    ) - program_cpu_s("pass")


def program_cpu_s(code: str) -> float:
    """CPU of a program without site packages: an editable install imports much of what is measured."""
    best = float("inf")
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def best_cpu_s(work: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best


def timer_cpu_s() -> float:
    """CPU of one timer around nothing."""
    tracker = TelemetryTracker(logs_dir=None)

    def work() -> None:
        for _ in range(TIMERS):
            with tracker.timer("forward"):
                pass

    return best_cpu_s(work) / TIMERS


def step_cpu_s(folder: Path) -> tuple[float, float]:
    """CPU of the library in one step with everything on, and of one write of the summary and files."""
    os.chdir(folder)
    setup_rank_logging("ranks").removeHandler(logging.getLogger("rank_0").handlers[-1])  # not to the console
    settings = TelemetrySettings(track_gpu_temperature=True, collect_telemetry_for_all_ranks=True)
    tracker = TelemetryTracker(settings, output_dir="out")
    tracer = DistributedTracer()
    numbers = iter(range(1, 1_000_000))
    tracker.start(total_steps=100_000)

    def work() -> None:
        for _ in range(STEPS):
            with tracker.timer("data"), tracer.trace("data"):
                pass
            with tracker.cuda_timer("forward"), tracer.trace("forward"):
                pass
            with tracker.timer("backward"), tracer.trace("backward"):
                tracker.communication("gradient_sync", 1e6, 1e-3)
            tracker.step(next(numbers), loss=2.5, learning_rate=0.1, grad_norm=1.0, samples=8, tokens=4096)

    step = best_cpu_s(work) / STEPS
    write = best_cpu_s(lambda: tracker.save({"loss": 2.5})) + best_cpu_s(
        lambda: tracker.recorder.write({"steps": STEPS})
    )
    tracker.finish()
    return step, write


def rows(folder: Path) -> Sequence[Row]:
    """The library's lines of the table."""
    return list(found(folder))


def found(folder: Path) -> Iterator[Row]:
    for what, seconds in (
        ("import gpuwatch.telemetry", import_cpu_s()),
        ("the tracker's names", tracker_import_cpu_s()),
    ):
        yield Row(what, f"{seconds * 1e3:.0f} ms CPU", "<= 50 ms", seconds <= 0.05, seconds)
    timer = timer_cpu_s()
    yield Row("a timer", f"{timer * 1e6:.1f} us CPU", "<= 20 us", timer <= 20e-6, timer)
    step, write = step_cpu_s(folder)
    share = (step + write * STEP_S / WRITE_AT_LINE_S) / STEP_S
    text = f"{step * 1e6:.0f} us a step, {write * 1e3:.1f} ms a write: {share:.2%}"
    yield Row("a step of 10 ms, everything on", text, "<= 0.5 %", share <= 0.005, share)
