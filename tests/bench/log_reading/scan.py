"""`gpuwatch scan` over all cores, by the clock, and one `grep -E -c` with the packs' patterns and literals.

The size in MB comes from GPUWATCH_BENCH_LOG_MB (100 where it is not set).
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.rules.load import load_packs
from gpuwatch.runs.prefilter import hyperscan_database
from gpuwatch.runs.scan.scan import usable_cores
from tests.bench.cpu import Row
from tests.bench.log_reading.grep import grep_literals, grep_patterns, measured
from tests.bench.log_reading.log_lines import numeric_lines
from tests.bench.log_reading.matcher import make_log

REPEATS = 2


def rows(folder: Path) -> Sequence[Row]:
    """A line for each engine that is installed."""
    packs = load_packs()
    log = folder / "job.log"
    examples = [text for rule in packs.rules for text in rule.examples if "\n" not in text.strip()]
    seed = random.Random(1)
    make_log(log, numeric_lines(seed), examples, seed)
    size = log.stat().st_size
    engines = ("hyperscan", "agent") if hyperscan_database.installed() else ("agent",)
    argv = [sys.executable, "-m", "gpuwatch", "scan", str(log), "--json", "--engine"]
    runs = {
        engine: min((measured([*argv, engine]) for _ in range(REPEATS)), key=lambda took: took.clock)
        for engine in engines
    }
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # before grep, which needs more
    slow, fast = size / grep_patterns(log, folder).clock, size / grep_literals(log, folder).clock
    table: list[Row] = []
    for engine, best in runs.items():
        ours = best.clock
        findings = sum(file["findings"] for file in json.loads(best.stated)["files"])
        table.append(
            Row(
                f"scan, {size / 1e6:.0f} MB log, {engine}, {usable_cores()} cores",
                f"{slow / ours:.3g}x grep -E -c of the patterns ({ours:.1f} s, {findings} findings); "
                f"{fast / ours:.2f}x of the literals ({fast:.1f} s)",
                ">= 1x of the patterns",
                slow / ours >= 1,
                ours,
            )
        )
    return [*table, Row("its memory, the largest process", f"{peak / 1e6:.0f} MB", "", None, peak)]
