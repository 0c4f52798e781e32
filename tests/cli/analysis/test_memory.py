"""`gpuwatch memory` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import gpuwatch
from tests.runs.memory.snapshots import snapshot, write


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    write(tmp_path / "rank0.pickle", snapshot())
    (tmp_path / "rank1.log").write_text(
        "MA 0.2 GB         Max_MA 0.3 GB         CA 0.4 GB         Max_CA 0 GB\n"
    )
    done = gpuwatch("memory", str(tmp_path), "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(each["rank"], each["peak_gb"]) for each in facts["ranks"]] == [(0, 0.1049), (1, 0.3221)]
    assert facts["peak_imbalance"] > 0.2
    assert {flag["code"] for flag in facts["flags"]} == {"memory.imbalance", "memory.fragmented"}


def test_a_folder_without_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert gpuwatch("memory", str(tmp_path)).returncode == 2
