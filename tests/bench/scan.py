"""`gpuwatch scan` over all cores against one `grep -E -c` with the packs' patterns, by the clock.

The size in MB comes from GPUWATCH_BENCH_LOG_MB (500 where it is not set).
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.rules.load import load_packs
from gpuwatch.runs import hyper
from gpuwatch.runs.scan import usable_cores
from tests.bench.cpu import Row
from tests.bench.ere import to_ere
from tests.bench.log_lines import numeric_lines
from tests.bench.matcher import make_log

REPEATS = 2


def rows(folder: Path) -> Sequence[Row]:
    """A line for each engine that is installed."""
    packs = load_packs()
    patterns, log = folder / "patterns", folder / "job.log"
    patterns.write_text("".join(to_ere(each) + "\n" for rule in packs.rules for each in rule.match))
    examples = [text for rule in packs.rules for text in rule.examples if "\n" not in text.strip()]
    seed = random.Random(1)
    make_log(log, numeric_lines(seed), examples, seed)
    grep, _ = best(["grep", "-a", "-E", "-c", "-f", str(patterns), str(log)])
    size = log.stat().st_size
    table: list[Row] = []
    for engine in ("hyperscan", "agent") if hyper.installed() else ("agent",):
        ours, said = best([sys.executable, "-m", "gpuwatch", "scan", str(log), "--json", "--engine", engine])
        facts = json.loads(said)
        table.append(
            Row(
                f"scan, {size / 1e6:.0f} MB log, {engine}, {usable_cores()} cores",
                f"{grep / ours:.2f}x grep ({ours:.1f} s against {grep:.1f} s; "
                f"{sum(file['findings'] for file in facts['files'])} findings)",
                ">= 1x" if engine == "hyperscan" else "",
                grep / ours >= 1 if engine == "hyperscan" else None,
            )
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return [*table, Row("its memory, the largest process", f"{peak / 1e6:.0f} MB", "", None)]


def best(argv: list[str]) -> tuple[float, str]:
    """The shorter of two runs, in seconds by the clock, and what was printed."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
        )
        times.append(time.perf_counter() - began)
    return min(times), done.stdout
