"""What ends a job on purpose costs nothing where the state was saved because of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuwatch.diagnose.job_end.planned_end import Leave, leave_of


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["SIGUSR1: 120 s left", "checkpoint written: step 120"], Leave(saved=True, meant=False)),
        (["Handling auto-requeue signal: 10", "saved /w/hpc.ckpt", "requeued job 7"], Leave(True, True)),
        (["^C", "Saved last checkpoint to v/last.ckpt"], Leave(saved=True, meant=True)),
        (["checkpoint written: step 100", "Received SIGTERM"], Leave(saved=False, meant=False)),
        (["SIGTERM, saving", "could not write: checkpoint not saved"], Leave(saved=False, meant=False)),
        (["step 3", "checkpoint written: step 3"], Leave(saved=False, meant=False)),
    ],
)
def test_only_a_save_after_the_signal_counts(lines: Sequence[str], expected: Leave) -> None:
    """A checkpoint from before the signal, or one that failed, saved nothing."""
    assert leave_of(lines) == expected
