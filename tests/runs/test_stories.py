"""Ended jobs as folders of logs with the real packs: what launchers tell, and whose silence counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.sentences import Sentences

END = 1_772_445_000.0
"""2026-03-02 09:50:00 UTC, when every file was last written."""


@pytest.fixture(scope="module")
def packs() -> Packs:
    return load_packs(())


def report_of(folder: Path, packs: Packs, files: dict[str, list[str]]) -> ScanReport:
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (END, END))
    return judged(scan(gather([folder]), packs.rules, "agent"), packs, END, 0.1)


def only(report: ScanReport) -> Incident:
    (incident,) = report.incidents
    return incident


def seen(rank: int, node: str, nodes: int) -> str:
    return (
        f"{node}:{7000 + rank}:{7100 + rank} [{rank % 4}] NCCL INFO comm 0x7f00 rank {rank} nranks "
        f"{4 * nodes} cudaDev {rank % 4} nvmlDev {rank % 4} busId {0x1B + rank % 4:x}000 commId 0x1 - "
        "Init COMPLETE"
    )


def waited(rank: int, group: str, seq: int, op: str, at: str) -> str:
    return (
        f"[rank{rank}]:[E0302 {at}.120000000 ProcessGroupNCCL.cpp:632] [{group} Rank {rank % 4}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=64, NumelOut=64, "
        f"Timeout(ms)=600000) ran for 600020 milliseconds before timing out."
    )


def test_a_driver_in_the_kernel_log_is_no_node(tmp_path: Path, packs: Packs) -> None:
    line = "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 22013, Fatal, Link 12 Minion Link DLREQ interrupt"
    kernel = [
        f"[Mon Mar  2 09:30:00 2026] {line}",
        "[Mon Mar  2 09:30:09 2026] nvidia-uvm: Loaded the driver",
    ]
    incident = only(report_of(tmp_path, packs, {"dmesg-gpu-004.log": kernel}))
    assert (incident.code, incident.node) == ("gpu.nvswitch.sxid", "gpu-004")


def test_the_line_that_says_where_leads_when_the_scheduler_says_it_twice(
    tmp_path: Path, packs: Packs
) -> None:
    lines = [f"{rank}: {seen(rank, f'gpu-00{rank // 4 + 1}', 2)}" for rank in range(8)]
    lines += [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=913.0. Some tasks have been OOM Killed.",
        "srun: error: gpu-002: task 6: Out Of Memory",
        "srun: Terminating StepId=913.0",
    ]
    incident = only(report_of(tmp_path, packs, {"slurm-913.out": lines}))
    assert (incident.rank, incident.node, incident.gpu) == (6, "gpu-002", 2)


def test_agents_that_waited_in_vain_are_one_incident_and_none_is_blamed(tmp_path: Path, packs: Packs) -> None:
    ends = ["torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"]
    incident = only(report_of(tmp_path, packs, {f"gpu-00{n}/torchrun.log": ends for n in (1, 2, 3)}))
    assert (incident.code, incident.rank, incident.node) == ("elastic.rdzv_timeout", None, None)
    assert incident.followers == 3


def test_a_port_that_is_taken_explains_who_could_not_connect_for_minutes(
    tmp_path: Path, packs: Packs
) -> None:
    files = {
        "gpu-001.log": [
            "W0302 09:30:02.100000 41 torch/csrc/distributed/c10d/socket.cpp:464] The server socket has "
            "failed to bind to [::]:29511 (errno: 98 - Address already in use)."
        ],
        "gpu-002.log": [
            "E0302 09:40:02.100000 52 torch/csrc/distributed/c10d/socket.cpp:1019] The client socket has "
            "timed out after 600000ms while trying to connect to (gpu-001, 29511)."
        ],
    }
    incident = only(report_of(tmp_path, packs, files))
    assert (incident.code, incident.node) == ("c10d.addr_in_use", "gpu-001")


def test_the_node_that_lacks_a_module_is_to_blame_not_the_nodes_that_waited(
    tmp_path: Path, packs: Packs
) -> None:
    files = {
        f"gpu-001/rank_{rank}.log": [
            "2026-03-02 09:30:00,100 INFO start",
            f"[rank{rank}]: torch.distributed.DistStoreError: Timed out after 901 seconds waiting for "
            "clients. 4/8 clients joined.",
            "2026-03-02 09:46:00,100 INFO leaving",
        ]
        for rank in range(4)
    }
    for rank in range(4, 8):
        files[f"gpu-002/rank_{rank}.log"] = [
            "2026-03-02 09:30:00,100 INFO start",
            "ModuleNotFoundError: No module named 'fused_ops'",
            "2026-03-02 09:30:04,100 INFO leaving",
        ]
    incident = only(report_of(tmp_path, packs, files))
    assert (incident.code, incident.node) == ("env.import", "gpu-002")
    assert "4 ranks there" in incident.headline


def test_a_mistake_in_the_options_is_one_incident_over_all_nodes(tmp_path: Path, packs: Packs) -> None:
    wrong = "AssertionError: world_size (8) is not divisible by tensor-model-parallel-size (3)"
    lines = [f"{rank}: {wrong}" for rank in range(8)]
    lines += [
        f"srun: error: gpu-00{n}: tasks {4 * n - 4}-{4 * n - 1}: Exited with exit code 1" for n in (1, 2)
    ]
    assert only(report_of(tmp_path, packs, {"slurm-914.out": lines})).code == "config.invalid"


def test_ranks_of_another_group_are_not_the_odd_ones(tmp_path: Path, packs: Packs) -> None:
    tensor, whole = "PG ID 3 PG GUID 14(tp)", "PG ID 0 PG GUID 0(default_pg)"
    files = {f"rank_{rank}.log": [seen(rank, "gpu-001", 2)] for rank in range(8)}
    for rank in (4, 5, 7):
        files[f"rank_{rank}.log"].append(waited(rank, tensor, 88_123, "ALLGATHER", "09:40:02"))
    for rank in range(4):
        files[f"rank_{rank}.log"].append(waited(rank, whole, 512, "ALLREDUCE", "09:40:42"))
    incident = only(report_of(tmp_path, packs, files))
    assert (incident.code, incident.rank) == ("nccl.watchdog_timeout", 6)
    assert "ALLGATHER seq 88123" in incident.headline


def test_a_rank_with_nothing_pending_never_entered_though_its_group_is_named_shorter(
    tmp_path: Path, packs: Packs, sentences: Sentences
) -> None:
    files = {f"rank_{rank}.log": [seen(rank, "gpu-001", 1)] for rank in range(4)}
    for rank in (0, 1, 3):
        files[f"rank_{rank}.log"].append(
            waited(rank, "PG ID 0 PG GUID 0(default_pg)", 77, "ALLREDUCE", "09:40:02")
        )
    files["rank_0.log"].append(
        "[rank0]:[E0302 09:40:02.200000000 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank 0] "
        "failure detected by watchdog at work sequence id: 77 PG status: last enqueued work: 79, "
        "last completed work: 76"
    )
    files["rank_2.log"].append(
        "[rank2]:[E0302 09:40:03.000000000 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0 Rank 2] Received a "
        "dump signal due to a collective timeout from rank 0 and we will try our best to dump "
        "the debug info. Last enqueued NCCL work: 76, last completed NCCL work: 76."
    )
    files["launcher.log"] = [
        "W0302 09:40:14.100000 40 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 7002 "
        "closing signal SIGTERM"
    ]
    incident = only(report_of(tmp_path, packs, files))
    assert (incident.rank, incident.gpu) == (2, 2)
    sentences(incident.headline)
    assert not any("py-spy" in step for step in incident.settle)  # nothing is left to look into


def test_a_loader_worker_that_was_killed_is_not_a_killed_rank(tmp_path: Path, packs: Packs) -> None:
    lines = ["[rank3]: RuntimeError: DataLoader worker (pid 15001) is killed by signal: Killed."]
    assert only(report_of(tmp_path, packs, {"rank_3.log": lines})).code == "data.loader_crash"


def test_a_task_error_that_the_driver_wraps_is_part_of_the_incident(tmp_path: Path, packs: Packs) -> None:
    lines = [
        "(Runner pid=88) AssertionError: train_batch_size (510) must be divisible by the rollouts (4)",
        "ray.exceptions.RayTaskError(AssertionError): ray::Runner.run() (pid=88, ip=10.9.0.4, actor_id=0c)",
    ]
    assert only(report_of(tmp_path, packs, {"driver.log": lines})).code == "config.invalid"


@pytest.mark.parametrize(
    ("number", "text", "code"),
    [(116, "Stale file handle", "storage.stale"), (122, "Disk quota exceeded", "storage.quota")],
)
def test_the_checkpoint_at_risk_is_named(
    tmp_path: Path, packs: Packs, number: int, text: str, code: str
) -> None:
    lines = [
        "step 410 loss 2.0",
        "Saving model checkpoint to /nas/owl/step_410",
        "Traceback (most recent call last):",
        '  File "fit.py", line 9, in save',
        "    torch.save(state, target)",
        f"OSError: [Errno {number}] {text}",
    ]
    incident = only(report_of(tmp_path, packs, {"fit.log": lines}))
    assert incident.code == code
    assert "/nas/owl/step_410" in incident.headline


def test_a_reason_in_the_program_s_own_words_leads_its_exit_code(tmp_path: Path, packs: Packs) -> None:
    lines = [
        "2031-06-01 05:00:09 ERROR the tokenizer's license could not be checked out, bye",
        "2031-06-01 05:00:09 INFO exit 9",
    ]
    incident = only(report_of(tmp_path, packs, {"rank3.log": lines, "rank2.log": ["rank 2 of 8 waits"]}))
    assert (incident.code, incident.rank, incident.severity) == ("rank.error_unexplained", 3, "critical")
