"""Logs pasted into one file below headings: each section is a log of the rank that its heading names."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.runs.files import pasted_sections
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.files.pasted_sections import place_in
from tests.cli.running import alone

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
MORE = ":" * 14


def steps(count: int, begin: int = 0) -> str:
    """Dated steps of a run of 600."""
    seconds = ((step, begin + step) for step in range(1, count + 1))
    return "".join(f"2026-11-22 20:{at // 60:02}:{at % 60:02} step {n}/600 loss 2.5\n" for n, at in seconds)


def scanned(path: Path) -> dict[str, Any]:
    """The report."""
    facts: dict[str, Any] = json.loads(alone("scan", "--json", str(path)).stdout)
    return facts


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("failing", "other", "rank", "node"),
    [
        ("===== rank 3 =====", "===== rank 0 =====", 3, None),
        ("==> rank_3.log <==", "==> rank_0.log <==", 3, None),
        ("### node gpu-b03 / rank 3 ###", "### node gpu-b02 / rank 0 ###", 3, "gpu-b03"),
        ("--- logs from worker-2 ---", "--- logs from worker-1 ---", None, "worker-2"),
        (f"{MORE}\nlogs/rank3.log\n{MORE}", f"{MORE}\nlogs/rank0.log\n{MORE}", 3, None),
    ],
)
@pytest.mark.parametrize("failing_first", [True, False])
def test_a_heading_names_the_rank_below_it_and_later_sections_clear_nothing(
    tmp_path: Path, failing: str, other: str, rank: int | None, node: str | None, failing_first: bool
) -> None:
    sections = [f"{failing}\n{steps(40)}{OOM}\n", f"{other}\n{steps(50)}\n"]
    (tmp_path / "all.txt").write_text("".join(sections if failing_first else reversed(sections)))
    (incident,) = scanned(tmp_path)["incidents"]
    assert (incident["class"], incident["severity"]) == ("oom.cuda", "error")
    assert (incident["rank"], incident["node"]) == (rank, node)
    proof = incident["evidence"][0]
    line = (tmp_path / "all.txt").read_text().splitlines()[proof["line"] - 1]
    assert line.startswith("torch.OutOfMemoryError")


def test_the_banners_of_a_program_that_runs_part_nothing(tmp_path: Path) -> None:
    banners = "".join(f"===== rank {rank} =====\n{steps(9, 10 * rank)}" for rank in range(4))
    (tmp_path / "train.log").write_text(banners + steps(100, 40) + OOM)
    (tmp_path / "short.log").write_text("".join(f"=== rank {rank} ===\n" for rank in range(8)) + OOM)
    (tmp_path / "rank0.log").write_text("=== rank 0 ===\nhello\nhello\n=== rank 1 ===\nhello\nhello\n" + OOM)
    assert len(gather([tmp_path]).files) == 3


@pytest.mark.parametrize("piece", [4, 5, 7, 64])
def test_headings_are_found_where_pieces_of_a_large_file_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(pasted_sections, "PIECE_BYTES", piece)
    for lines in range(1, 5):
        text = f"{'x' * lines}\n==> rank_3.log <==\n{steps(2)}\n==> rank_0.log <==\n{steps(2)}"
        (tmp_path / f"{lines}.txt").write_text(text)
    (tmp_path / "none.txt").write_text("= one\n-\n=\n" * 40)
    logs = Counter(log.path.name for log in gather([tmp_path]).files)
    assert logs == {"none.txt": 1, **{f"{lines}.txt": 3 for lines in range(1, 5)}}


@pytest.mark.parametrize(
    ("title", "place"),
    [
        ("rank 3", "rank_3.log"),
        ("RANK=3 (stderr)", "rank_3.log"),
        ("node gpu-b03 / rank 5", "gpu-b03/rank_5.log"),
        ("rank 5 on gpu-b03", "gpu-b03/rank_5.log"),
        ("logs from worker-2", "worker-2.log"),
        ("output of host cn17", "cn17.log"),
        ("tail of logs/rank_3.log (last 50 lines)", "logs/rank_3.log"),
        ("Epoch 3", None),
        ("Rank 3 initialised", None),
        ("Training on 8 GPUs", None),
        ("step 100", None),
        ("v2", None),
        ("Configuration", None),
        ("Stage-2", None),
    ],
)
def test_the_titles_that_name_a_log(title: str, place: str | None) -> None:
    assert place_in(title) == place
