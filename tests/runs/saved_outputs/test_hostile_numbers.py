"""Numbers that are none, in every place of a saved output that holds one: no fault."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuwatch.cli.analysis.scan import scan
from tests.tool_outputs import dcgm, smi

CORPUS = Path(__file__).parents[2] / "corpus"
SAVED = (
    "describe",
    "inspect",
    "sacct",
    "scontrol",
    "smi",
    "pod",
    "events",
    "dcgm",
    "ibstat",
    "bjobs",
    "condor",
)
NUMBER = re.compile(r"\d+")
VALUES = ("9" * 5_000, "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT THREE}" * 30, "-1", "1e999")


def texts() -> list[str]:
    """What tools print, the corpus' own and those of the generators."""
    files = [path for path in sorted(CORPUS.rglob("*")) if path.is_file() and path.stat().st_size < 20_000]
    of_each = [[path for path in files if word in path.name][:1] for word in SAVED]
    found = [path.read_text(errors="replace") for each in of_each for path in each]
    made = [smi.query(driver, smi.eight()) for driver in smi.DRIVERS[:1]]
    made += [smi.table(driver, {3: "2"}) for driver in smi.DRIVERS[:1]]
    made += [dcgm.diag(), dcgm.health(3, "Memory", "bad")]
    return [*found, *map("\n".join, made)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", VALUES, ids=["long", "superscript", "arabic", "negative", "infinite"])
def test_a_number_that_is_none_is_no_fault(tmp_path: Path, value: str) -> None:
    for at, text in enumerate(texts()):
        lines = text.splitlines()
        for half in (0, 1):  # what announces a part stays whole in one of them
            changed = [NUMBER.sub(value, line) if row % 2 == half else line for row, line in enumerate(lines)]
            (tmp_path / f"{at}-{half}.txt").write_text("\n".join(changed) + "\n")
    done = CliRunner().invoke(scan, ["--json", str(tmp_path)])
    assert done.exit_code in (0, 1)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert json.loads(done.stdout)["files"]
