"""The end of another rank or program below a failure is not the end of the rank that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.analysis.scan import scan

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
HEAD = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'
STEPS = "".join(f"step {number} loss 2.5\n" for number in range(100))


def scanned(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = scan.main(["--json", str(folder)], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("result", ["1 passed in 3.2s", "3 passed, 1 warning in 12.1s", "run passed"])
@pytest.mark.parametrize("fault", [HEAD + OOM, "Fatal Python error: Segmentation fault"])
def test_a_test_result_below_a_training_that_failed_is_no_recovery(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, result: str
) -> None:
    (tmp_path / "rank0.log").write_text(f"{STEPS}{fault}\n{result}\n")
    status, report = scanned(tmp_path, capsys)
    assert (status, len(report["incidents"])) == (1, 1)


def test_a_rank_that_finishes_does_not_end_the_failure_of_one_that_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def logged(count: int) -> str:
        return "".join(
            f"2026-11-22 20:{number // 60:02}:{number % 60:02} step {number}/600 loss 2.5\n"
            for number in range(count)
        )

    failed = f"2026-11-22 20:05:00 ERROR [rank0]: {OOM}\n2026-11-22 20:05:01 ERROR exiting with code 1\n"
    (tmp_path / "rank0.log").write_text(logged(300) + failed)
    (tmp_path / "rank3.log").write_text(logged(600) + "2026-11-22 20:10:00 Training finished\n")
    status, report = scanned(tmp_path, capsys)
    assert (status, [each["rank"] for each in report["incidents"]]) == (1, [0])
