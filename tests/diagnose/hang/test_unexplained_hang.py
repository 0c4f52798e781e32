"""A hang whose cause is not logged: its class, who did not take part, and what that rank logged last."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.diagnose.finding import Reporter, places

HEAD = "[2026-02-03 04:05:06.100000: W stall_inspector.cc:107] One or more tensors were submitted to be "
STALLED = (
    f"{HEAD}reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks.\n"
)
WORK = "WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 "


def timed_out(rank: int) -> str:
    return f"[rank{rank}]:[E0203 04:15:0{rank}.1 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: {WORK}milliseconds before timing out.\n"  # noqa: E501 - a line of a log


def incident_of(folder: Path, **texts: str) -> Incident:
    for name, text in texts.items():
        (folder / f"{name}.log").write_text(text)
    packs = load_packs()
    (incident,) = judged(scan(gather([folder]), packs.all, "agent"), packs, 1.8e9, 0.1).incidents
    return incident


@pytest.mark.parametrize(
    ("text", "code", "ranks"),
    [
        (f"{STALLED}Missing ranks:\n3: [DistributedOptimizer_Allreduce_2]\n", "horovod.stall", {3}),
        (f"{STALLED}Missing ranks:\n2: [a]\n5: [a]\nstep 4\n7: [b]\n", "horovod.stall", {2, 5}),
        (f"{STALLED}Stalled ops:\nBroadcast_bias_0 [missing ranks: 1, 6]\n", "horovod.stall", {1, 6}),
        (
            "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: init. Timed out task names:\n"
            "/job:jax_worker/replica:0/task:5\n/job:jax_worker/replica:0/task:2\n\nAdditional GRPC error\n",
            "c10d.init_barrier_timeout",
            {2, 5},
        ),
        (
            "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: init::0. # of tasks that reached "
            "the barrier: 1/2. The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed "
            "out task names:\n/job:jax_worker/replica:0/task:1\n",
            "c10d.init_barrier_timeout",
            {1},
        ),
    ],
    ids=["horovod", "two of horovod", "old horovod", "jax", "newer jax"],
)
def test_ranks_that_the_log_lists_as_missing_are_named(
    tmp_path: Path, text: str, code: str, ranks: set[int]
) -> None:
    incident = incident_of(tmp_path, train=text)
    assert incident.code == code
    assert incident.rank in ranks if len(ranks) == 1 else incident.rank in {None, *ranks}
    assert all(str(rank) in incident.headline for rank in ranks)
    assert "fabric" not in incident.headline


def test_where_the_size_of_the_job_is_not_known_nobody_says_that_all_entered(tmp_path: Path) -> None:
    incident = incident_of(tmp_path, train=timed_out(0) + timed_out(1))
    assert (incident.code, incident.rank, incident.confidence) == ("nccl.watchdog_timeout", None, "low")
    assert "fabric" not in incident.headline
    assert "every rank" not in incident.because


def test_the_bar_above_the_timeouts_tells_what_the_silent_rank_did(tmp_path: Path) -> None:
    bar = "Running tokenizer on dataset:  56%|#####     | 2296/4102 [28:31<40:12, 611.02 examples/s]\n"
    incident = incident_of(tmp_path, train=bar + timed_out(1) + timed_out(2) + timed_out(3))
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 0)
    assert incident.last_activity is not None
    assert "Running tokenizer" in incident.last_activity.line
    assert "Running tokenizer" in incident.headline


def test_the_last_line_of_the_silent_ranks_own_file_goes_before(tmp_path: Path) -> None:
    """Document 004, line 400."""
    saving = (
        "2026-02-03 04:04:59 INFO step 40 loss 2.1\n2026-02-03 04:05:00 INFO Saving checkpoint to /ckpt/40\n"
    )
    incident = incident_of(
        tmp_path, rank_0=saving, rank_1="step 40\n" + timed_out(1), rank_2="step 40\n" + timed_out(2)
    )
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 0)
    assert incident.last_activity is not None
    assert incident.last_activity.rank == 0
    assert incident.last_activity.text.endswith(" /ckpt/40")


def test_an_abort_below_the_timeouts_of_its_file_is_no_cause(tmp_path: Path) -> None:
    abort = "terminate called after throwing an instance of 'std::runtime_error'\n"
    incident = incident_of(tmp_path, train=timed_out(1) + timed_out(2) + abort)
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 0)


def test_where_only_consequences_are_logged_the_class_is_theirs() -> None:
    report = Reporter(Places())
    report.emit("peer.connection_lost", 1.0, 1, lines=["RuntimeError: Connection closed by peer"])
    report.emit("peer.connection_lost", 1.2, 2, lines=["RuntimeError: Connection closed by peer"])
    (incident,) = report.judged()
    assert (incident.code, incident.cause, incident.confidence) == ("peer.connection_lost", None, "low")


def test_all_ranks_of_an_announced_world_lead_to_the_fabric() -> None:
    report = Reporter(places(4))
    report.timeouts(range(4), 0)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", None)
    assert "fabric" in incident.headline
