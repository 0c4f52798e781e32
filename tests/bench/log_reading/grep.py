"""What `grep -E -c` needs for the same logs: with the packs' patterns, and with their literals."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuwatch.rules.compiling.compile import literals_for
from gpuwatch.rules.load import load_packs
from tests.bench.log_reading.ere import to_ere

SAMPLE_S = 4.0
"""With all patterns grep needs up to a minute for a megabyte: it gets a sample that takes about so long."""
SAMPLES = (50_000, 200_000, 1_000_000, 4_000_000, 16_000_000, 64_000_000)


@dataclass(frozen=True)
class Took:
    """One run of a program."""

    cpu: float
    clock: float
    stated: str


@dataclass(frozen=True)
class Grep:
    """Bytes per second, the time to make the patterns ready left out."""

    cpu: float
    clock: float
    sample: int
    """Bytes that it was measured on."""


def measured(argv: Sequence[str]) -> Took:
    """Run a program with LC_ALL=C.

    Raises:
        RuntimeError: it failed; 1 is grep's word for no match.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        raise RuntimeError(done.stderr)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Took(cpu, took, done.stdout)


def grep_literals(log: Path, folder: Path) -> Grep:
    """With one literal or more of each pattern as alternatives, on the whole log: the fast anchor."""
    return _rate(_file(folder / "literals", literals()), log, log.stat().st_size)


def grep_patterns(log: Path, folder: Path) -> Grep:
    """With the patterns as alternatives, on the beginning of the log."""
    file, sample = _file(folder / "patterns", patterns()), folder / "sample"
    rate = None
    for size in SAMPLES:
        with log.open("rb") as opened:
            sample.write_bytes(opened.read(size))
        rate = _rate(file, sample, sample.stat().st_size)
        if rate.sample / rate.cpu > SAMPLE_S / 4 or rate.sample < size:
            break
    assert rate is not None
    return rate


def _rate(patterns: Path, log: Path, size: int) -> Grep:
    argv = ["grep", "-a", "-E", "-c", "-f", str(patterns)]
    ready, through = measured([*argv, os.devnull]), measured([*argv, str(log)])
    least = 1e-3
    return Grep(
        size / max(through.cpu - ready.cpu, least), size / max(through.clock - ready.clock, least), size
    )


def _file(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


@cache
def patterns() -> tuple[str, ...]:
    """The packs' patterns as grep takes them."""
    return tuple(to_ere(each) for rule in load_packs().rules for each in rule.match)


@cache
def literals() -> tuple[str, ...]:
    """The packs' literals as grep takes them."""
    found = {(each.text, each.fold) for rule in load_packs().rules for each in literals_for(rule)}
    return tuple(to_ere(("(?i)" if fold else "") + re.escape(text)) for text, fold in sorted(found))
