"""A search over hyperparameters: a trial that fails ends its own training, not the search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.analysis.scan import scan

TRACE = 'Traceback (most recent call last):\n  File "/w/s.py", line 4, in objective\n    train(trial)\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB"
FAILED = {
    "optuna": "[W 2026-11-20 10:06:22,303] Trial 1 failed with parameters: {{'bs': 9}} because of {}.\n"
    + TRACE
    + OOM
    + "\n[W 2026-11-20 10:06:22,304] Trial 1 failed with value None.\n",
    "ray": "2026-11-20 10:06:22,303 ERROR tune_controller.py:1331 -- Trial task failed for trial t_7f_00001\n"
    + TRACE
    + OOM
    + "\nTrial t_7f_00001 errored after 0 iterations at 2026-11-20 10:06:23.\n",
}
DONE = {
    "optuna": "[I 2026-11-20 10:11:42,405] Trial 2 finished with value: 2.11 and parameters: {'bs': 2}.\n",
    "ray": "Trial t_7f_00002 completed after 3 iterations at 2026-11-20 10:11:42.\n",
}


def scanned(folder: Path, log: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    (folder / "tune.log").write_text(log)
    status = scan.main(["--json", str(folder)], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("tool", FAILED)
def test_a_trial_that_fails_before_another_finishes_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    status, found = scanned(tmp_path, FAILED[tool].format(OOM) + DONE[tool], capsys)
    assert (status, found["incidents"]) == (0, [])


@pytest.mark.parametrize("tool", FAILED)
def test_a_trial_after_which_none_finishes_is_an_incident(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    status, found = scanned(tmp_path, DONE[tool] + FAILED[tool].format(OOM), capsys)
    assert (status, [each["class"] for each in found["incidents"]]) == (1, ["oom.cuda"])


@pytest.mark.parametrize("rank", ["[rank3]: ", ""])
@pytest.mark.parametrize(
    ("failed", "done"),
    [
        ("ERROR: run 41-b failed", "INFO cleanup: run cleanup completed"),
        ("experiment a1 failed", "experiment tracking finished"),
        ("candidate 4 failed", "candidate upload finished"),
        ("Trial 1 failed with value None.", "Trial 1 finished with state FAIL."),
    ],
)
def test_what_else_ends_after_a_failed_run_clears_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failed: str, done: str, rank: str
) -> None:
    lines = "".join(f"{rank}{line}\n" for line in (TRACE + OOM).splitlines())
    status, found = scanned(tmp_path, f"{lines}{failed}\n{done}\n", capsys)
    assert (status, [each["class"] for each in found["incidents"]]) == (1, ["oom.cuda"])
