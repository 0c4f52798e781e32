"""The agent's matcher against `grep -E -c` with the packs' patterns, on a numeric log and on one of words.

The size in MB comes from GPUWATCH_BENCH_LOG_MB (500 where it is not set).
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuwatch.rules.compile import compiled
from gpuwatch.rules.load import load_packs
from tests.bench.cpu import Row
from tests.bench.ere import to_ere
from tests.bench.log_lines import RANKS, numeric_lines, text_lines
from tests.end_to_end.cluster import ROOT

SIZE = int(os.environ.get("GPUWATCH_BENCH_LOG_MB", "500")) * 1_000_000
GREP_BYTES = 2_000_000
"""Of the log's beginning: with all packs grep needs seconds for a megabyte of words."""
MATCHING = 1e-4
MEMORY = 100e6

_SCAN = """
import itertools, json, sys
sys.path.insert(0, sys.argv[1])
from gpuwatch.agent.logs.ruleset import RuleSet
from gpuwatch.agent.logs.scanner import Scanner
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
found += len(scanner.end())
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"found": found, "rss": peak * 1024, "suspended": list(ruleset.suspended)}))
"""


def make_log(path: Path, lines: Iterator[str], examples: Sequence[str], seed: random.Random) -> None:
    """A log of `SIZE` bytes, one line in ten thousand an example of a rule."""
    written = 0
    with path.open("w", encoding="utf-8") as log:
        for line in lines:
            matching = seed.random() < MATCHING
            text = f"[rank{seed.randrange(RANKS)}]: {seed.choice(examples)}" if matching else line
            written += log.write(text + "\n")
            if written >= SIZE:
                return


def rows(folder: Path) -> Sequence[Row]:
    """The matcher's lines of the table."""
    packs = load_packs()
    rules, patterns = folder / "rules.json", folder / "patterns"
    rules.write_text(json.dumps(compiled(packs.rules)))
    patterns.write_text("".join(to_ere(each) + "\n" for rule in packs.rules for each in rule.match))
    examples = [text for rule in packs.rules for text in rule.examples if "\n" not in text.strip()]
    table = []
    for name, lines, goal in (("numeric", numeric_lines, 0.35), ("text", text_lines, 0.12)):
        log = folder / f"{name}.log"
        seed = random.Random(1)
        make_log(log, lines(seed), examples, seed)
        log.read_bytes()  # into the page cache, for both
        ours, said = _cpu_s([sys.executable, "-c", _SCAN, str(ROOT), str(rules), str(log)])
        facts = json.loads(said)
        size = log.stat().st_size
        with log.open("rb") as opened:
            part = opened.read(GREP_BYTES)
        log.write_bytes(part)
        grep, _ = _cpu_s(["grep", "-a", "-E", "-c", "-f", str(patterns), str(log)])
        grep *= size / len(part)
        log.unlink()
        ratio = grep / ours
        table += [
            Row(
                f"matcher, {size / 1e6:.0f} MB {name} log, {len(packs.rules)} rules",
                f"{ratio:.2f}x grep ({size / ours / 1e6:.0f} against {size / grep / 1e6:.0f} MB per CPU s; "
                f"{facts['found']} findings)",
                f">= {goal}x",
                ratio >= goal,
            ),
            Row(
                f"its memory, {name} log", f"{facts['rss'] / 1e6:.0f} MB", "<= 100 MB", facts["rss"] <= MEMORY
            ),
        ]
        if facts["suspended"]:
            table.append(Row("rules that were too slow", ", ".join(facts["suspended"]), "none", False))
    return table


def _cpu_s(argv: list[str]) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    if done.returncode > 1:  # 1 is grep's word for no match
        raise RuntimeError(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout
