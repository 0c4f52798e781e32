"""Ranks and bytes of which a scan has read nothing are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.report.scan.report import ScanReport, scan_facts
from gpuwatch.report.scan.text import verdict
from gpuwatch.runs.files.encodings import is_unknown_encoding
from tests.runs.ended_logs import report, steps

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def silent(found: ScanReport) -> tuple[list[int], list[int]]:
    facts = scan_facts(found)
    return facts["ranks_with_empty_logs"], facts["ranks_without_log"]


def test_a_rank_whose_log_is_empty_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(steps(600, 600))
    (tmp_path / "rank1.log").touch()
    found = report(tmp_path)
    assert silent(found) == ([1], [])
    assert "rank 1" in verdict(found, verbose=False).text


def test_an_empty_stream_beside_a_written_one_is_no_silence(tmp_path: Path) -> None:
    for rank in range(2):
        folder = tmp_path / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text(f"world_size=2 rank={rank}\n" + steps(600, 600))
        (folder / "stderr.log").touch()
    assert silent(report(tmp_path)) == ([], [])


def test_ranks_without_a_log_are_named(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text("world_size=4\n" + steps(600, 600))
    found = report(tmp_path)
    assert silent(found) == ([], [2, 3])
    assert "ranks 2-3" in verdict(found, verbose=False).text


def test_one_log_of_all_ranks_misses_nobody(tmp_path: Path) -> None:
    lines = (f"[rank{rank}] step {step}/600 loss 2.0\n" for step in range(600) for rank in range(2))
    (tmp_path / "job.out").write_text("world_size=4\n" + "".join(lines))
    (tmp_path / "train.log").write_text("world_size=4\n" + steps(600, 600))
    assert silent(report(tmp_path)) == ([], [])


@pytest.mark.parametrize("encoding", ["cp037", "cp500", "cp1026"])
@pytest.mark.parametrize("head", ["", "torchrun starts here\n" * 400])
def test_text_in_ebcdic_is_reported_as_unread(tmp_path: Path, encoding: str, head: str) -> None:
    text = steps(300, 600) + OOM
    (tmp_path / "rank0.log").write_bytes(head.encode() + text.encode(encoding))
    found = report(tmp_path)
    assert found.unread
    assert found.has_problems


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("шаг 100: потеря 2.05, память исчерпана\n", "koi8-r"),
        ("шаг 100: потеря 2.05, память исчерпана\n", "utf-8"),
        ("第100步 损失2.05 显存不足\n", "utf-8"),
        ("2026-03-04 00:00:00 INFO step 100/600 训练 loss 2.05 lr 1e-4\n", "gbk"),
        ("100% ██████████ 600/600 [10:00<00:00]\n", "utf-8"),
    ],
)
def test_logs_in_other_languages_are_read(text: str, encoding: str) -> None:
    assert not is_unknown_encoding(("step 100/600 loss 2.05 lr 1e-4 " + text).encode(encoding) * 100)
