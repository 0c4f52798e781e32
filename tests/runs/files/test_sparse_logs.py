"""Files that are not what they seem: sparse logs, kernel files, names that a terminal cannot show."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import alone

HOLE = 1 << 40
needs_root = pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="only root reads /proc/kmsg")
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("before", [b"", b"step 1 loss 2\n"], ids=["nothing before it", "a line before it"])
@pytest.mark.parametrize("hole", [1 << 20, 64 << 20, 100 << 20, 100 << 20 | 77, HOLE])
def test_the_first_line_behind_a_hole_is_read(tmp_path: Path, hole: int, before: bytes) -> None:
    with (tmp_path / "rank1.log").open("wb") as file:
        file.write(before)
        file.seek(hole)
        file.write(OOM)
    done = alone("scan", "--json", str(tmp_path))
    assert done.returncode == 1
    assert [each["class"] for each in json.loads(done.stdout)["incidents"]] == ["oom.cuda"]


@needs_root
def test_a_file_that_has_no_data_now_is_unreadable_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "rank1.log").write_bytes(OOM)
    (tmp_path / "rank2.log").symlink_to("/proc/kmsg")
    done = alone("scan", "--json", str(tmp_path))
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    assert [each["class"] for each in facts["incidents"]] == ["oom.cuda"]


@pytest.mark.parametrize("encoding", ["ascii:strict", "latin-1:strict"])
def test_a_character_that_the_terminal_does_not_have_ends_no_report(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "rank1\x1b\u4e2d.log").write_bytes(OOM)
    done = alone("scan", "-v", str(tmp_path), changes={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert (done.returncode, "oom.cuda" in done.stdout) == (1, True)


def lines_of(facts: Any) -> list[dict[str, Any]]:
    """Every object of the report that names a place."""
    if isinstance(facts, list):
        return [found for each in facts for found in lines_of(each)]
    if not isinstance(facts, dict):
        return []
    inner = [found for each in facts.values() for found in lines_of(each)]
    return [facts, *inner] if "line" in facts and "offset" in facts else inner
