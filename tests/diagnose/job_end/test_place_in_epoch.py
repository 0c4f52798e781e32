# ruff: noqa: E501  log lines stay whole
"""Where a job ended whose log counts the steps of each epoch alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.runs.ended_logs import report

ENGINE = "03/04 00:{:02d}:00 - mmengine - INFO - Epoch(train)  [6][{:>4}/1250]  lr: 1.0e-03  time: 0.31  loss: 4.2\n"
DETECTOR = (
    "2026-03-04 00:{:02d}:00,1 - mmdet - INFO - Epoch [6][{}/1250] lr: 1.0e-03, time: 0.310, loss: 4.2\n"
)
IMAGES = "Epoch: [6][{1:>4}/1250]\tTime  0.310 ( 0.312)\tData  0.010 ( 0.011)\tLoss 4.2000e+00 (4.3000e+00)\n"
ERROR = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nOSError: [Errno 122] Disk quota exceeded\n'


@pytest.mark.parametrize("line", [ENGINE, DETECTOR, IMAGES])
def test_the_outcome_names_step_and_epoch(tmp_path: Path, line: str) -> None:
    text = "".join(line.format(number, 50 * number) for number in range(1, 23))
    (tmp_path / "train.log").write_text(text + ERROR)
    end = report(tmp_path).end
    assert end.place == (6, 1100, 1250)
    assert re.findall(r"[\d,]+", end.text) == ["1,100", "1,250", "6"]


def test_steps_of_the_whole_run_come_first(tmp_path: Path) -> None:
    whole = "".join(f"2026-03-04 00:00:{at:02d}Z INFO step {at}/900 loss 2.1\n" for at in range(1, 31))
    (tmp_path / "train.log").write_text(whole + ERROR)
    end = report(tmp_path).end
    assert (end.step, end.place) == (30, None)


def test_a_cancellation_after_a_failure_ends_the_job(tmp_path: Path) -> None:
    whole = "".join(f"iter {at}: loss 2.1, time: 400.00ms\n" for at in range(70, 101))
    port = "n3:71:90 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error\n"
    (tmp_path / "slurm-71.out").write_text(
        whole + port + "slurmstepd: error: *** STEP 71.0 ON n3 CANCELLED AT 2026-03-04T00:10:40 ***\n"
    )
    end = report(tmp_path).end
    assert (end.state, end.step) == ("stopped", 100)
