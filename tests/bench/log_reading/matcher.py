"""The agent's matcher on one core, and `grep -E -c` with the packs' literals and with their patterns.

The size in MB comes from GPUWATCH_BENCH_LOG_MB (100 where it is not set).
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from tests.bench.cpu import Row
from tests.bench.log_reading.grep import grep_literals, grep_patterns, measured
from tests.bench.log_reading.log_lines import RANKS, numeric_lines, source_lines, text_lines
from tests.end_to_end.cluster import ROOT

SIZE = int(os.environ.get("GPUWATCH_BENCH_LOG_MB", "100")) * 1_000_000
MATCHING = 1e-4
MEMORY = 100e6


@dataclass(frozen=True)
class Kind:
    """A log, and what is wanted on it."""

    name: str
    lines: Callable[[random.Random], Iterator[str]]
    rate: float
    """MB per CPU second."""
    share: float
    """Of grep's rate."""
    most: int = 10**12
    """Bytes."""


KINDS = (
    Kind("numeric", numeric_lines, 150, 0.35),
    Kind("text", text_lines, 40, 0.12),
    Kind("sources", source_lines, 0, 0, 20_000_000),
)

_SCAN = """
import itertools, json, sys
sys.path.insert(0, sys.argv[1])
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.scanner import Scanner
with open(sys.argv[2]) as file:
    ruleset = RuleSet(json.load(file))
scanner = Scanner(ruleset, sys.argv[3], itertools.count(1).__next__)
found, at = 0, 0
with open(sys.argv[3], "rb", buffering=0) as log:
    while True:
        data = log.read(256 * 1024)
        if not data:
            break
        found += len(scanner.feed(data, at, 1.75e9, True))
        at += len(data)
        if at % (64 << 20) < len(data):
            scanner.progress()  # as a worker does once a second
found += len(scanner.end())
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"found": found, "rss": peak * 1024, "suspended": list(ruleset.suspended)}))
"""


def make_log(
    path: Path, lines: Iterator[str], examples: Sequence[str], seed: random.Random, size: int = SIZE
) -> None:
    """A log of `size` bytes, one line in ten thousand an example of a rule."""
    written = 0
    with path.open("w", encoding="utf-8") as log:
        for line in lines:
            matching = seed.random() < MATCHING
            text = f"[rank{seed.randrange(RANKS)}]: {seed.choice(examples)}" if matching else line
            written += log.write(text + "\n")
            if written >= size:
                return


def rows(folder: Path) -> Sequence[Row]:
    """The matcher's lines of the table."""
    packs = load_packs()
    rules = folder / "rules.json"
    rules.write_text(json.dumps(compiled(packs.all)))
    examples = [text for rule in packs.rules for text in rule.examples if "\n" not in text.strip()]
    table: list[Row] = []
    for kind in KINDS:
        log = folder / f"{kind.name}.log"
        seed = random.Random(1)
        make_log(log, kind.lines(seed), examples, seed, min(SIZE, kind.most))
        table += _rows_of(kind, log, rules, folder, len(packs.rules))
        log.unlink()
    return table


def _rows_of(kind: Kind, log: Path, rules: Path, folder: Path, count: int) -> list[Row]:
    took = measured([sys.executable, "-c", _SCAN, str(ROOT), str(rules), str(log)])
    facts = json.loads(took.stated)
    size = log.stat().st_size
    ours, fast, slow = size / took.cpu, grep_literals(log, folder), grep_patterns(log, folder)
    what = f"matcher, {size / 1e6:.0f} MB {kind.name} log"
    anchors = (
        ("the packs' literals", fast, ""),
        ("the packs' patterns", slow, f", on {slow.sample / 1e6:.2g} MB of it"),
    )
    table = [
        Row(
            f"{what}, the built-in rules",
            f"{ours / 1e6:.0f} MB per CPU s ({count} rules, {facts['found']} findings, "
            f"{facts['rss'] / 1e6:.0f} MB memory)",
            f">= {kind.rate} MB, <= 100 MB" if kind.rate else "<= 100 MB memory",
            ours >= kind.rate * 1e6 and facts["rss"] <= MEMORY,
            size / ours,
        )
    ]
    table += [
        Row(
            f"{what}, against grep -E -c of {name}",
            f"{ours / grep.cpu:.2f}x ({grep.cpu / 1e6:.3g} MB per CPU s{sample})",
            f">= {kind.share}x" if kind.share else "",
            ours / grep.cpu >= kind.share if kind.share else None,
            ours / grep.cpu,
        )
        for name, grep, sample in anchors
    ]
    if facts["suspended"]:
        table.append(Row("rules that were too slow", ", ".join(facts["suspended"]), "none", False))
    return table
