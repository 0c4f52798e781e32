"""Outputs of `py-spy dump` beside the logs of a job that says nothing itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.score import scanned

WAITS = """\
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    wrapper (torch/distributed/c10d_logger.py:83)
    step (sft.py:199)
"""
SAVES = """\
    fsync (os)
    save_pretrained (transformers/modeling_utils.py:3034)
    main (sft.py:330)
"""


def stack(rank: int, frames: str) -> str:
    head = f"Process {7000 + rank}: python -u sft.py\nPython v3.11.9\n\n"
    return f'{head}Thread 7 (active): "MainThread"\n{frames}'


def job(folder: Path, last: str = "") -> None:
    for rank in range(4):
        lines = [
            f"2026-11-08 23:{n // 60:02}:{n % 60:02} rank {rank} pid {7000 + rank} step {n}/900 loss 1.8"
            for n in range(30)
        ]
        (folder / f"rank-{rank}.log").write_text("\n".join([*lines, last]))


@pytest.mark.parametrize("together", [None, "named", "by pid"])
def test_the_rank_that_is_elsewhere_is_named(tmp_path: Path, together: str | None) -> None:
    job(tmp_path)
    dumps = [stack(rank, SAVES if rank == 2 else WAITS) for rank in range(4)]
    if together is None:
        for rank, text in enumerate(dumps):
            (tmp_path / f"stack-rank{rank}.txt").write_text(text)
    else:
        heads = [f"=== rank {rank}\n" if together == "named" else "" for rank in range(4)]
        text = "".join(head + dump for head, dump in zip(heads, dumps, strict=True))
        (tmp_path / "stacks.txt").write_text(text)
    (incident,) = scanned(tmp_path)["incidents"]
    assert (incident["class"], incident["rank"]) == ("job.hang", 2)
    assert "fsync" in incident["evidence"][0]["text"]


@pytest.mark.parametrize("odd", [(), (1, 2)])
def test_stacks_without_a_minority_name_no_rank(tmp_path: Path, odd: tuple[int, ...]) -> None:
    job(tmp_path)
    for rank in range(4):
        (tmp_path / f"stack-rank{rank}.txt").write_text(stack(rank, SAVES if rank in odd else WAITS))
    assert [each["rank"] for each in scanned(tmp_path)["incidents"]] == [None]
