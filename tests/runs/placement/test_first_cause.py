"""Which of several reports of one failure leads: the first of what lasts, and a cause before its echo."""

from __future__ import annotations

from pathlib import Path

from tests.runs.ended_logs import report, step_line, steps
from tests.runs.placement.culprits import first_incident

TRACE = 'Traceback (most recent call last):\n  File "/w/fit.py", line 8, in step\n    check(grads)\n'


def test_the_rank_whose_loss_is_nan_a_step_before_the_others(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        first = 31 if rank == 5 else 32
        return "".join(step_line(step, 900, "nan" if step >= first else "2.1") for step in range(1, 100))

    for rank in range(8):
        (tmp_path / f"rank{rank}.log").write_text(log(rank))
    (incident,) = report(tmp_path).incidents
    assert (incident.code, incident.rank) == ("num.nan_loss", 5)


def test_a_failed_transfer_leads_over_the_abort_that_a_survivor_called(tmp_path: Path) -> None:
    lost = "RuntimeError: NCCL error in: x.cpp:825, remote process exited or there was a network error"
    transfer = (
        "algo-2:131:402 [1] ofi_process_cq:1033 NCCL WARN NET/OFI Request 0x7 completed with error. RC: 21."
    )
    log = steps(40, 900) + f"2026-03-04 00:00:50Z [1,mpirank:5,algo-2]<stderr>:{transfer}\n"
    log += "".join(
        f"2026-03-04 00:01:0{rank}Z [1,mpirank:{rank},algo-1]<stderr>:{lost}\n" for rank in (1, 2, 3)
    )
    log += "2026-03-04 00:01:09Z MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
    incident = first_incident(tmp_path, {"job.log": log})
    assert (incident.code, incident.rank) == ("rdma.ofi_error", 5)


def test_a_gradient_of_nan_that_ends_the_process_is_the_cause_of_its_exit(tmp_path: Path) -> None:
    error = "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel"
    table = "  host      : n1\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 123)\n"
    log = steps(40, 900) + TRACE + error + " collective.\n" + table
    incident = first_incident(tmp_path, {"job.log": log})
    assert (incident.code, incident.rank) == ("num.grad_nan", 3)


def test_a_list_of_potential_causes_states_none_of_them(tmp_path: Path) -> None:
    raylet = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. "
        "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection "
        "error code 2. There are some potential root causes. (1) The process is killed by SIGKILL "
        "by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed "
        "unexpectedly due to SIGSEGV or other errors.\n"
    )
    assert first_incident(tmp_path, {"job.log": raylet}).code == "ray.worker_died"


def test_the_node_that_ssh_ran_on_ended_and_not_the_rank_of_another_nodes_lines(tmp_path: Path) -> None:
    log = "worker-0: [2026-03-04 00:00:01,000] [INFO] [launch.py:164:main] dist_world_size=32\n"
    log += "".join(f"worker-0: [Rank 0] step={step}, skipped=0, lr=1e-4\n" for step in range(1, 60))
    log += (
        "worker-3: [2026-03-04 00:01:09,000] [ERROR] [launch.py:325:sigkill_handler] "
        "['/usr/bin/python3', '-u', 'train.py', '--local_rank=0'] exits with return code = 3\n"
        "pdsh@worker-0: worker-3: ssh exited with exit code 250\n"
    )
    incident = first_incident(tmp_path, {"ds.log": log})
    assert (incident.rank, incident.node) == (None, "worker-3")


def test_a_slurm_task_is_the_rank_of_its_number_where_tasks_are_ranks(tmp_path: Path) -> None:
    log = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=5.0. Some of the step tasks OOM Killed.\n"
        "srun: error: a100-17: task 0: Out Of Memory\n"
        "srun: error: a100-17: tasks 1-3: Terminated\nsrun: error: a100-18: tasks 4-7: Terminated\n"
    )
    incident = first_incident(tmp_path, {"slurm-5.out": log})
    assert (incident.code, incident.rank, incident.node) == ("slurm.oom_kill", 0, "a100-17")


def gpu_fault(suffering: range) -> dict[str, str]:
    failed = TRACE + "RuntimeError: HIP error: unspecified launch failure\n"
    kernel = (
        "[Wed Mar  4 00:00:50 2026] amdgpu 0000:e3:00.0: amdgpu: 1 uncorrectable hardware errors detected\n"
    )
    logs = {
        f"mi-12/rank{rank}.log": steps(48, 900) + (failed if rank in suffering else "") for rank in range(4)
    }
    return {**logs, "mi-12/dmesg-T.log": kernel}


def test_a_fault_of_a_gpu_is_that_of_the_only_rank_that_suffered(tmp_path: Path) -> None:
    incident = first_incident(tmp_path, gpu_fault(range(2, 3)))
    assert (incident.code, incident.node, incident.rank) == ("amd.ras", "mi-12", 2)


def test_a_fault_of_a_gpu_is_nobodys_where_two_ranks_suffered(tmp_path: Path) -> None:
    incident = first_incident(tmp_path, gpu_fault(range(2, 4)))
    assert (incident.code, incident.node, incident.rank) == ("amd.ras", "mi-12", None)


def test_an_error_about_a_peer_above_the_only_end_is_its_cause(tmp_path: Path) -> None:
    log = steps(40, 900) + TRACE + "RuntimeError: makeDeviceForHostname(): unsupported gloo device\n"
    log += (
        "[2026-03-04 00:00:50,100] torch.distributed.elastic.multiprocessing.api: [ERROR] failed "
        "(exitcode: 1) local_rank: 0 (pid: 9112) of binary: /usr/bin/python\n"
    )
    assert first_incident(tmp_path, {"job.log": log}).code == "gloo.connect_failed"
