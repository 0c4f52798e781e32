"""A stop on request after a save, and a later attempt that finishes, are no problems; a bar behind is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.analysis.scan import scan

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def scanned(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = scan.main(["--json", str(folder)], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


def steps(count: int, total: int) -> str:
    return "".join(f"update {number}/{total} loss {3 - number / 100:.3f}\n" for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("got SIGTERM, closing the round\nwrote checkpoint /out/61.pt\nleft on request, exit 0\n", 0),
        ("got SIGTERM, closing the round\ncould not write checkpoint /out/61.pt\n", 1),
        ("got SIGTERM, closing the round\n", 1),
    ],
)
def test_a_stop_on_request_is_in_order_where_the_state_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str, status: int
) -> None:
    (tmp_path / "train.log").write_text(steps(60, 900) + end)
    assert scanned(tmp_path, capsys)[0] == status


@pytest.mark.parametrize("name", ["attempt_{}", "try{}", "retry-{}"])
@pytest.mark.parametrize("done", [True, False])
def test_a_failed_attempt_is_a_note_where_a_later_one_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, done: bool
) -> None:
    for number in (1, 2):
        folder = tmp_path / name.format(number)
        folder.mkdir()
        (folder / "log.txt").write_text(steps(30 if number == 2 and done else 12, 30) + OOM * (number == 1))
    assert scanned(tmp_path, capsys)[0] == (0 if done else 1)


def test_the_bar_of_one_rank_that_stays_behind_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = [
        f"rank {rank}:  {at // 8}%|##        | {at}/800 [00:{at % 60:02}<09:00,  1.1s/it]\n"
        for at in range(20, 500, 20)
        for rank in range(5)
        if rank != 2 or at <= 300
    ]
    (tmp_path / "tty.txt").write_text("".join(bars))
    status, report = scanned(tmp_path, capsys)
    assert (status, report["outcome"]["behind"]) == (1, [2])
