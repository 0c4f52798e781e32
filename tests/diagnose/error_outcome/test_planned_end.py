"""What ends a job on purpose costs nothing where the state was saved because of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from gpuwatch.diagnose.job_end.planned_end import Leave, leave_of, with_interruption
from gpuwatch.diagnose.model.alert import Alert, Proof
from tests.diagnose.finding import T0


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


def alert(code: str, text: str, at: float = T0, job: str = "run") -> Alert:
    proof = Proof("line", text, at, file="/logs/launch.log", offset=1, lines=(text,))
    return Alert(code, code, "error", code, code, (proof,), first=at, last=at, job=job)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("SignalException: Process 41 got signal: 2", "info"),
        ("Received Signals.SIGINT death signal, shutting down workers", "info"),
        ("^CReceived 2 death signal, shutting down workers", "info"),
        ("SignalException: Process 41 got signal: 15", "error"),
        ("Received Signals.SIGTERM death signal, shutting down workers", "error"),
    ],
)
def test_what_an_interrupted_launcher_ended_is_a_note_with_it(text: str, severity: str) -> None:
    launcher = alert("launch.agent_signalled", text)
    echo = alert("peer.connection_lost", "Connection closed by peer", T0 + 1)
    apart = [
        alert("peer.connection_lost", "Connection closed by peer", T0 - 60),
        alert("peer.connection_lost", "Connection closed by peer", T0 + 1, job="other"),
        alert("oom.cuda", "CUDA out of memory", T0 + 1),
    ]
    judged = with_interruption([launcher, echo, *apart])
    assert [each.severity for each in judged] == [severity, severity, "error", "error", "error"]


@pytest.mark.parametrize(
    ("after_s", "job", "severity", "role"),
    [
        (0.5, "run", "warning", "echo"),
        (25.0, "run", "warning", "echo"),  # its ranks took their time
        (-60.0, "run", "error", "root"),  # stopped by something else, long before
        (0.5, "other", "error", "root"),
    ],
)
def test_a_launcher_that_slurm_stopped_follows_the_cancellation(
    after_s: float, job: str, severity: str, role: str
) -> None:
    cancelled = alert("slurm.cancelled", "slurmstepd: error: *** JOB 888 ON n13 CANCELLED AT ... ***")
    launcher = alert("launch.agent_signalled", "Received 15 death signal", T0 + after_s, job)
    failed = alert("rank.exit_error", "failed (exitcode: 1)", T0 - 1)
    judged = with_interruption([cancelled, structs.replace(launcher, role="root"), failed])
    assert [(each.severity, each.role) for each in judged[1:]] == [(severity, role), ("error", failed.role)]
