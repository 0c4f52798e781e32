"""The past of a file is searched as far back as is stored of it, holes left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.agent.logs.files import backlog
from gpuwatch.agent.logs.files.backlog import Backlog

OOM = b"[rank0]: torch.OutOfMemoryError: CUDA out of memory\n"
LINE = b"step 1 loss 2\n"


def all_of(one: Backlog) -> list[tuple[int, bytes]]:
    """(offset, piece) of everything that is left, the newest part first."""
    found = []
    while one.left or one.older is not None:
        if not one.left:
            one.go_older()
        data, offset = one.read(1 << 20)
        found.append((offset, data))
        one.scanned(len(data))
    one.close()
    return found


def test_the_older_part_follows_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "BACKLOG_BYTES", 1000)
    path = tmp_path / "rank0.log"
    path.write_bytes(OOM + LINE * 1000)
    pieces = all_of(Backlog(str(path), path.stat().st_size))
    assert pieces[0][0] > 10_000
    assert b"".join(data for _, data in sorted(pieces)) == path.read_bytes()


def test_parts_of_a_bounded_size_lead_back_to_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BACKLOG_BYTES", 1000)
    monkeypatch.setattr(backlog, "OLDER_BYTES", 5000)
    path = tmp_path / "rank0.log"
    path.write_bytes(OOM + LINE * 1000)
    size = path.stat().st_size
    one = Backlog(str(path), size)
    unsearched = [one.searched_from]
    pieces = []
    while True:
        begin, end = one.whole
        assert end - begin <= 5000 + len(LINE)
        data, offset = one.read(1 << 20)
        pieces.append((offset, data))
        one.scanned(len(data))
        if one.older is None:
            break
        one.go_older()
        unsearched.append(one.searched_from)
    one.close()
    assert b"".join(data for _, data in sorted(pieces)) == path.read_bytes()
    assert len(unsearched) == 4 and unsearched[0] == unsearched[1] > size - 1100
    assert unsearched[1:] == sorted(unsearched[1:], reverse=True) and unsearched[-1] < 5100


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_hole_costs_nothing_and_shifts_no_offset(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "rank0.log"
    hole = 1 << 36
    path.write_bytes(OOM[:-1] + end)
    with path.open("r+b") as file:
        os.truncate(file.fileno(), hole)
        file.seek(hole)
        file.write(LINE)
    pieces = all_of(Backlog(str(path), path.stat().st_size))
    assert sum(len(data) for _, data in pieces) < 2 << 20
    first = b"".join(data for offset, data in pieces if offset < hole)
    assert first.startswith(OOM[:-1]) and first.endswith(b"\n")
    assert pieces[-1][1].endswith(LINE)
    assert pieces[-1][0] + len(pieces[-1][1]) == hole + len(LINE)
