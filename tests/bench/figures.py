"""The figures of a run of the benchmark as a file, and their ratios to those of an earlier run."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpuwatch import __version__
from tests.bench.cpu import Row
from tests.bench.parts import ROOT, Outcome


def commit() -> str | None:
    """The commit that is checked out, and `+changes` where files differ; None outside of a checkout."""
    try:
        argv = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
        done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def save(file: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the figures so far; `value` of a row is a plain number or null."""
    facts = {
        "commit": commit(),
        "version": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "parts": {
            outcome.part: {"failed": outcome.failed, "rows": [asdict(row) for row in outcome.rows]}
            for outcome in outcomes
        },
    }
    file.write_text(json.dumps(facts, indent=1) + "\n")


class Earlier:
    """The figures of an earlier run.

    Raises:
        ValueError: the file holds none.
    """

    def __init__(self, file: Path) -> None:
        facts: dict[str, Any] = json.loads(file.read_text())
        if not isinstance(facts, dict) or "parts" not in facts:
            raise ValueError(f"{file}: no figures of `python -m tests.bench --json`")
        self.commit = facts["commit"]
        self._values = {
            (part, row["what"]): row["value"]
            for part, one in facts["parts"].items()
            for row in one["rows"]
            if row["value"]
        }

    def ratio(self, part: str, row: Row) -> str:
        """This figure over the earlier one; a dash where either is not there."""
        before = self._values.get((part, row.what))
        return "-" if before is None or row.value is None else f"{row.value / before:.2f}x"
