"""A time-out that one rank reports: who alone logged work of its own below the step that all logged last."""
# ruff: noqa: E501  lines of logs are quoted whole

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

PACKS = load_packs()
TIMEOUT = (
    "2026-11-20 09:30:41 ERROR [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, "
    "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600061 milliseconds before timing out."
)


@pytest.mark.parametrize(
    ("words", "rank"),
    [
        ({2: "fetching shard 17"}, 2),
        ({2: "fetching shard 17", 3: "fetching shard 12"}, None),  # both do that
        ({2: "fetching shard 17", 1: "evaluating batch 4"}, None),
        ({2: "saved checkpoint /ckpt/step40 in 4 s"}, None),
        ({2: "leaving, it was stopped by the user"}, None),
        ({}, None),
    ],
)
def test_only_the_one_rank_with_work_of_its_own_is_named(
    tmp_path: Path, words: dict[int, str], rank: int | None
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(4):
        lines = [
            f"2026-11-20 09:20:{step:02} INFO step {step}/1000 | loss 2.5 | lr 1e-4" for step in range(41)
        ]
        lines += [f"2026-11-20 09:20:41 INFO {words[number]}"] if number in words else []
        lines += [TIMEOUT] if number == 0 else []
        (folder / f"rank{number}.log").write_text("\n".join([*lines, ""]))
    (incident,) = judged(
        scan(gather([folder]), PACKS.all, "agent", cores=1), PACKS, 1_800_000_000.0, 0.1
    ).incidents
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", rank)
    assert rank is None or incident.confidence == "low"
