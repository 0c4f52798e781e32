"""Holes of sparse logs are skipped: a scan costs what is stored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.cli.running import alone

HOLE = 1 << 40
OOM = b"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def test_a_hole_is_not_read_and_line_numbers_and_offsets_stay(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(b"step 1 loss 2")
    os.truncate(tmp_path / "rank0.log", HOLE)
    with (tmp_path / "rank1.log").open("wb") as file:
        file.write(b"step 1 loss 2\nstep 2 loss 2")
        file.seek(HOLE)
        file.write(b"\n" + OOM)
    done = alone("scan", "--json", str(tmp_path))
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    match, *_ = [each for each in lines_of(facts) if each.get("offset") == HOLE + 1]
    assert (Path(match["file"]).name, match["line"]) == ("rank1.log", 3)


def lines_of(facts: Any) -> list[dict[str, Any]]:
    """Every object of the report that names a place."""
    if isinstance(facts, list):
        return [found for each in facts for found in lines_of(each)]
    if not isinstance(facts, dict):
        return []
    inner = [found for each in facts.values() for found in lines_of(each)]
    return [facts, *inner] if "line" in facts and "offset" in facts else inner
