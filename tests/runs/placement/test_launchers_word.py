"""A launcher's line that does not state which rank ended, beside the lines of the rank itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.placement.culprits import first_incident

STAMP = "[2026-01-04 06:14:0{}] torch.distributed.elastic.multiprocessing.api: "
LAUNCHER = (
    STAMP.format(2)
    + "[WARNING] Sending process 71 closing signal SIGTERM\n"
    + STAMP.format(5)
    + "[ERROR] failed (exitcode: 1) local_rank: {} (pid: 77) of binary: /usr/bin/python3\n"
)
FRAME = '[rank{0}]:   File "/w/fit.py", line 8, in step\n[rank{0}]:     loss.backward()\n'


@pytest.mark.parametrize("rank", [1, 6])
@pytest.mark.parametrize("crash", ["", "Internal Error: Received signal - Segmentation fault\n"])
def test_the_exception_of_the_only_rank_that_raised_one_leads(tmp_path: Path, rank: int, crash: str) -> None:
    text = FRAME.format(rank) + f"[rank{rank}]: RuntimeError: tile lost\n" + crash + LAUNCHER.format(rank)
    found = first_incident(tmp_path, {"job.out": text})
    assert (found.code, found.rank) == ("python.exception", rank)


def test_what_the_only_rank_in_error_states_leads(tmp_path: Path) -> None:
    error = "[rank1]: RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n"
    found = first_incident(tmp_path, {"job.out": FRAME.format(1) + error + LAUNCHER.format(1)})
    assert (found.code, found.rank) == ("gpu.lost", 1)


def test_the_node_on_which_slurm_could_not_start_a_task_is_named(tmp_path: Path) -> None:
    text = "srun: error: Task launch for StepId=23110.0 failed on node dgx14: Job prolog failed\n"
    found = first_incident(tmp_path, {"term.txt": text})
    assert (found.code, found.node) == ("slurm.launch_failure", "dgx14")
