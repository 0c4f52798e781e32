"""A job that its user or a scheduler ended by a signal: the report names the signal, not a missing cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.report.scan.report import outcome_facts
from tests.runs.ended_logs import report, steps

TRACEBACK = """Traceback (most recent call last):
  File "/w/train.py", line 88, in <module>
    main()
KeyboardInterrupt
"""
TORCHRUN = (
    "W0304 00:02:01.000000 4242 site-packages/torch/distributed/elastic/agent/server/api.py:719] "
    "Received 2 death signal, shutting down workers\n"
    "W0304 00:02:01.000000 4242 torch/distributed/elastic/multiprocessing/api.py:897] "
    "Sending process 4243 closing signal SIGINT\n"
)
CANCELLED = "slurmstepd: error: *** JOB 4711 ON gpu-b03 CANCELLED AT 2026-03-04T00:02:05 ***\n"
FAILED = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.mark.parametrize(
    ("ending", "signal"),
    [
        (TRACEBACK, "SIGINT"),
        ("^C\n", "SIGINT"),
        (f"^C{TRACEBACK}", "SIGINT"),
        ("Received signal 2 (SIGINT), shutting down\n", "SIGINT"),
        ("training interrupted by user\n", "SIGINT"),
        ("caught SIGTERM, exiting\n", "SIGTERM"),
        (CANCELLED, "SIGTERM"),
        ("press Ctrl-C to stop\n", None),
        ("Sending process 4243 closing signal SIGTERM\n", None),
        (FAILED + "Received SIGTERM\n", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("total", [1000, None])
def test_the_report_names_the_signal_that_ended_a_job(
    tmp_path: Path, ending: str, signal: str | None, total: int | None
) -> None:
    (tmp_path / "train.log").write_text(steps(120, total) + ending)
    end = report(tmp_path).end
    assert (end.signal, outcome_facts(end)["signal"]) == (signal, signal)
    assert end.step == 120
    assert (signal or "(SIG") in end.text or signal is None


def test_a_log_without_steps_ends_in_a_signal(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("loading the tokenizer\n" + TRACEBACK)
    assert report(tmp_path).end.signal == "SIGINT"


def test_a_job_that_goes_on_or_finishes_was_not_ended(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(steps(60, 120) + "caught SIGINT\n" + steps(120, 120, 61))
    assert (report(tmp_path).end.signal, report(tmp_path).end.state) == (None, "finished")
