"""What a silent rank did last is what its program logged, not what a library warns of at each start."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.model.last_activity import last_line

STEP = "step 40/1000 loss 2.5"


@pytest.mark.parametrize(
    "line",
    [
        "[W1127 socket.cpp:462] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
        "[rank2]:[E1127 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation timeout",
    ],
)
def test_lines_of_libraries_are_no_activity(line: str) -> None:
    assert last_line([STEP, line]) == STEP
    assert last_line([line]) is None
