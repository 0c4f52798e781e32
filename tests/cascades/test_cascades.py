"""The cascades of the taxonomy, as whole jobs: one incident each, with the right rank, class and honesty."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.jobs.places import Places
from tests.cascades.cluster import EPOCH, JOB, Cluster, packs
from tests.sentences import Sentences


def only(cluster: Cluster, *, backlog: bool = False) -> Incident:
    found = cluster.judged(backlog=backlog)
    assert len(found) == 1, [incident.headline for incident in found]
    return found[0]


def what(incident: Incident) -> tuple[str, int | None, str | None]:
    return incident.code, incident.rank, incident.node


@pytest.fixture(params=[16, pytest.param(128, marks=pytest.mark.long)])
def live(request: pytest.FixtureRequest) -> Cluster:
    """A job that is watched."""
    return Cluster(request.param)


@pytest.fixture(params=["16 watched", pytest.param("128 watched", marks=pytest.mark.long), "16 scanned"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    """A job that is watched, or whose logs are scanned afterwards, when no skew of a clock is known."""
    ranks, how = request.param.split()
    return Cluster(int(ranks)) if how == "watched" else Cluster(int(ranks), skew=False, folder=tmp_path)


def test_data_loader_that_starves(job: Cluster) -> None:
    job.raised(
        5, 130.0, "RuntimeError: DataLoader timed out after 120 seconds", "torch/utils/data/dataloader.py"
    )
    job.hang(12.0, but=[5])
    job.closes("gpu-001", 131.0, 5, 1)
    incident = only(job)
    assert what(incident) == ("data.loader_timeout", 5, "gpu-001")
    assert incident.followers == job.ranks - 1


def test_storage_that_stalls_one_node(job: Cluster) -> None:
    job.kernel("gpu-002", 3.0, "nfs: server filer-2 not responding, still trying")
    job.hang(5.0, but=[12])
    incident = only(job)
    assert what(incident) == ("storage.nfs", 12, "gpu-002")


def test_cuda_out_of_memory_on_one_rank(job: Cluster) -> None:
    job.raised(
        11, 20.0,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity "
        "of 79.10 GiB of which 1.20 GiB is free.",
    )  # fmt: skip
    job.hang(18.5, but=[11])
    job.closes("gpu-002", 22.0, 11, 1)
    incident = only(job)
    assert what(incident) == ("oom.cuda", 11, "gpu-002")
    assert incident.confidence == "high"
    assert re.search(rf"\b{job.ranks - 1} ranks .* ALLREDUCE seq 2381", incident.headline)


def test_rank_killed_by_the_kernel(job: Cluster) -> None:
    job.kernel(
        "gpu-002", 9.0,
        f"Out of memory: Killed process {job.pid(14)} (python3) total-vm:412345678kB, anon-rss:398234567kB, "
        "file-rss:0kB, shmem-rss:1024kB, UID:1000 pgtables:800000kB oom_score_adj:0",
    )  # fmt: skip
    job.hang(8.0, but=[14])
    job.closes("gpu-002", 10.0, 14, -9)
    incident = only(job)
    assert what(incident) == ("oom.host.kernel", 14, "gpu-002")
    assert incident.confidence == ("high" if job.folder is None else "medium"), "whose is a collected file"


def test_rank_killed_and_nobody_says_why(job: Cluster) -> None:
    job.hang(8.0, but=[14])
    job.closes("gpu-002", 10.0, 14, -9)
    incident = only(job)
    assert what(incident) == ("rank.killed", 14, "gpu-002")
    assert incident.confidence == "medium"
    assert incident.settle


def test_gpu_that_falls_off_the_bus(job: Cluster, sentences: Sentences) -> None:
    job.kernel(
        "gpu-002", 44.0,
        f"NVRM: Xid (PCI:{job.bus(9)}): 79, pid={job.pid(9)}, name=python3, GPU has fallen off the bus.",
    )  # fmt: skip
    job.kernel("gpu-002", 44.1, f"NVRM: GPU {job.bus(9)}.0: GPU has fallen off the bus.")
    job.kernel(
        "gpu-002", 46.0,
        f"NVRM: Xid (PCI:{job.bus(9)}): 154, GPU recovery action changed from 0x0 (None) to "
        "0x2 (Node Reboot Required)",
    )  # fmt: skip
    job.hang(43.5, but=[9])
    incident = only(job)
    assert what(incident) == ("gpu.xid.fell_off", 9, "gpu-002")
    # no log tells which GPU a rank uses
    assert ("gpu-002 GPU 1" in incident.headline) == (job.folder is None)
    sentences(incident.headline)


def test_memory_error_reported_inside_a_watchdog_line(job: Cluster) -> None:
    job.kernel(
        "gpu-002", 30.0,
        f"NVRM: Xid (PCI:{job.bus(10)}): 94, pid={job.pid(10)}, name=python3, Contained: SM (0x1). RST: No, "
        "D-RST: No",
    )  # fmt: skip
    job.glog(
        10, 30.4, "E",
        "[PG ID 0 PG GUID 0(default_pg) Rank 10] Process group watchdog thread terminated with exception: "
        "CUDA error: uncorrectable ECC error encountered",
    )  # fmt: skip
    job.kernel(
        "gpu-002", 31.0, f"NVRM: Xid (PCI:{job.bus(10)}): 45, pid={job.pid(10)}, name=python3, Ch 00000012"
    )
    job.hang(29.5, but=[10])
    incident = only(job)
    assert what(incident) == ("gpu.xid.ecc", 10, "gpu-002")


def test_memory_error_without_a_kernel_log(job: Cluster) -> None:
    job.glog(
        10, 30.4, "E",
        "[PG ID 0 PG GUID 0(default_pg) Rank 10] Process group watchdog thread terminated with exception: "
        "CUDA error: uncorrectable ECC error encountered",
    )  # fmt: skip
    job.hang(29.5, but=[10])
    assert what(only(job)) == ("cuda.ecc", 10, "gpu-002")


def test_shared_memory_too_small(job: Cluster) -> None:
    job.raised(
        3, 6.0,
        "RuntimeError: DataLoader worker (pid 41207) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    )  # fmt: skip
    job.hang(5.0, but=[3])
    job.closes("gpu-001", 7.0, 3, 1)
    assert what(only(job)) == ("oom.shm", 3, "gpu-001")


def test_port_that_another_job_holds(job: Cluster) -> None:
    job.glog(
        0, 1.0, "W",
        "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "socket.cpp:460",
    )  # fmt: skip
    job.raised(
        0, 1.2,
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    )  # fmt: skip
    for rank in range(1, job.ranks):
        job.raised(
            rank, 62.0 + rank / 50,
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying "
            f"to connect to ({job.address(0)}, 29500).",
        )  # fmt: skip
    incident = only(job)
    assert what(incident) == ("c10d.addr_in_use", 0, "gpu-001")
    assert incident.followers == job.ranks - 1


def test_port_of_the_fabric_that_goes_down(job: Cluster) -> None:
    for rank in range(8, 16):
        job.rank(
            rank, 20.0 + rank / 100,
            f"gpu-002:{job.pid(rank)}:31999 [{rank % 8}] NCCL WARN NET/IB : mlx5_0:1 Got async event : "
            "port error",
        )  # fmt: skip
    for rank in range(8):
        job.rank(
            rank, 24.5 + rank / 100,
            f"gpu-001:{job.pid(rank)}:31999 [{rank % 8}] NCCL WARN NET/IB: Got completion from peer "
            f"{job.address(8)}<48211> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0",
        )  # fmt: skip
    incident = only(job)
    assert (incident.code, incident.node) == ("rdma.port_event", "gpu-002")


def test_link_that_breaks_without_a_word(live: Cluster) -> None:
    for rank in range(8):
        live.rank(
            rank, 24.5 + rank / 100,
            f"gpu-001:{live.pid(rank)}:31999 [{rank % 8}] NCCL WARN NET/IB: Got completion from peer "
            f"{live.address(8)}<48211> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0",
        )  # fmt: skip
    incident = only(live)
    assert (incident.code, incident.node) == ("rdma.transport_retry", "gpu-002")
    assert incident.confidence != "high"


def test_ranks_that_call_different_collectives(job: Cluster) -> None:
    job.raised(
        6, 15.0,
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 6 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=88, OpType=BROADCAST, TensorShape=[16], TensorDtypes=Float, "
        "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided (default), "
        "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))), but Rank "
        "0 is running collective: CollectiveFingerPrint(SequenceNumber=88, OpType=ALLREDUCE, "
        "TensorShape=[16]).",
    )  # fmt: skip
    job.hang(14.0, but=[6])
    incident = only(job)
    assert what(incident) == ("c10d.collective_mismatch", 6, "gpu-001")
    assert "rank 0" in incident.headline


def test_node_that_the_scheduler_loses(job: Cluster) -> None:
    stamp = job.clock("gpu-001", 13.0)
    job.slurm(12.0, "srun: error: Node failure on gpu-002")
    job.hang(10.0, but=range(8, 16))
    job.slurm(
        13.0,
        f"slurmstepd: error: *** STEP {JOB}.0 ON gpu-001 CANCELLED AT {stamp:%Y-%m-%dT%H:%M:%S}"
        " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    )  # fmt: skip
    incident = only(job)
    assert (incident.code, incident.node) == ("slurm.node_failure", "gpu-002")
    assert incident.followers == job.ranks - 8


def test_node_that_gpuwatch_loses(live: Cluster, sentences: Sentences) -> None:
    live.hang(10.0, but=range(8, 16))
    lost = Alert(
        "node_lost@gpu-002", "node_lost", "critical", "node lost", "lost: no route to host",
        (Proof("value", "last heard, 20 s ago", EPOCH + 9, node="gpu-002"),), node="gpu-002",
        first=EPOCH + 9.0,
        last=EPOCH + 600, kernel=True,
    )  # fmt: skip
    (incident,) = live.judged([lost])
    assert (incident.code, incident.node) == ("node_lost", "gpu-002")
    sentences(incident.headline)


def test_disk_that_is_full_when_the_checkpoint_is_written(job: Cluster) -> None:
    job.raised(
        0, 40.0, "OSError: [Errno 28] No space left on device: '/ckpt/step_2000/model.pt'", "checkpoint.py"
    )
    job.raised(
        0,
        40.3,
        "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 704 vs 598",
        "serialization.py",
    )
    job.hang(30.0, but=[0])
    job.closes("gpu-001", 42.0, 0, 1)
    assert what(only(job)) == ("storage.full", 0, "gpu-001")


@pytest.mark.parametrize(
    ("reason", "code"), [("TIME LIMIT", "slurm.time_limit"), ("PREEMPTION", "slurm.preempted")]
)
def test_job_that_the_scheduler_ends(job: Cluster, reason: str, code: str) -> None:
    stamp = job.clock("gpu-001", 100.0)
    job.slurm(
        100.0,
        f"slurmstepd: error: *** JOB {JOB} ON gpu-001 CANCELLED AT {stamp:%Y-%m-%dT%H:%M:%S} "
        f"DUE TO {reason} ***",
    )  # fmt: skip
    for node in job.nodes:
        job.launcher(
            node,
            101.5,
            "E",
            "agent/server/api.py:869",
            "Received Signals.SIGTERM death signal, shutting down workers",
        )
        job.launcher(
            node, 101.6, "W", "multiprocessing/api.py:900", "Received 15 death signal, shutting down workers"
        )
        job.closes(node, 102.0, 0, -15, reported=False)
    job.slurm(131.0, "srun: error: gpu-001: tasks 0-7: Killed")
    incident = only(job)
    assert what(incident) == (code, None, incident.node)
    assert f"job {JOB}" in incident.headline


def test_loss_that_becomes_nan(job: Cluster) -> None:
    job.rank(0, 12.0, "step 2001 loss: nan grad_norm: nan lr 3.0e-4")
    job.raised(0, 12.5, "ValueError: Loss is nan, stopping training")
    job.hang(12.2, but=[0])
    incident = only(job)
    assert (incident.code, incident.rank) == ("num.nan_loss", 0)


def test_rank_0_that_saves_a_checkpoint_for_too_long(job: Cluster, sentences: Sentences) -> None:
    job.rank(0, -2.0, "saving checkpoint to /ckpt/step_2000 ...")
    job.hang(0.0, but=[0], op="_ALLGATHER_BASE", seq=411)
    incident = only(job)
    assert what(incident) == ("nccl.watchdog_timeout", 0, "gpu-001")
    sentences(incident.headline)
    assert "rank 0 (gpu-001" in incident.headline
    assert incident.confidence == "medium"
    assert incident.silent == (0,)


def test_gpu_that_is_gone_while_the_logs_only_tell_of_timeouts(live: Cluster, sentences: Sentences) -> None:
    live.hang(60.0, but=[13])
    lost = Alert(
        "gpu_lost@gpu-002:5", "gpu_lost", "critical", "gpu lost", "lost: GPU is lost",
        (Proof("value", "last values, 3 s ago", EPOCH + 61, node="gpu-002"),), node="gpu-002", gpu=5, rank=13,
        job=JOB, first=EPOCH + 61.0, last=EPOCH + 700, kernel=True,
    )  # fmt: skip
    (incident,) = live.judged([lost])
    assert what(incident) == ("gpu_lost", 13, "gpu-002")
    sentences(incident.headline)


def test_where_nobody_is_silent_nobody_is_blamed(job: Cluster) -> None:
    job.hang(0.0)
    incident = only(job)
    assert what(incident) == ("nccl.watchdog_timeout", None, None)
    assert incident.confidence == "low"
    assert incident.followers == job.ranks


def test_512_ranks_are_one_incident() -> None:
    job = Cluster(512)
    job.raised(300, 20.0, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
    job.hang(19.0, but=[300])
    job.closes(job.node_of(300), 21.0, 300, 1)
    incident = only(job)
    assert what(incident) == ("oom.cuda", 300, "gpu-038")
    assert incident.followers == 511
    assert len(incident.timeline) <= 10
    watchdogs = [moment for moment in incident.timeline if moment.code == "nccl.watchdog_timeout"]
    assert max(len(moment.ranks) for moment in watchdogs) == 511


def test_two_jobs_at_once_are_two_incidents() -> None:
    one, other = Cluster(16, job="1001"), Cluster(16, job="1002", first_node=5)
    one.raised(3, 20.0, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
    one.hang(19.0, but=[3])
    other.kernel(
        "gpu-006",
        21.0,
        f"NVRM: Xid (PCI:{other.bus(9)}): 79, pid={other.pid(9)}, name=python3, GPU has fallen off the bus.",
    )
    other.hang(20.5, but=[9])
    places = Places(
        (*one.places.ranks, *other.places.ranks), {**one.places.addresses, **other.places.addresses}
    )
    alerts = alerts_of([*one.found(), *other.found()], packs(), places)
    found = incidents(alerts, places, packs(), EPOCH + 3600)
    assert [(each.job, *what(each)) for each in found] == [
        ("1001", "oom.cuda", 3, "gpu-001"),
        ("1002", "gpu.xid.fell_off", 9, "gpu-006"),
    ]


def test_what_was_there_before_gpuwatch_came_is_judged_the_same(job: Cluster) -> None:
    job.raised(11, 20.0, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
    job.hang(18.5, but=[11])
    job.closes("gpu-002", 22.0, 11, 1)
    incident = only(job, backlog=True)
    assert what(incident) == ("oom.cuda", 11, "gpu-002")


def test_exception_of_the_program(job: Cluster) -> None:
    job.raised(7, 20.0, "KeyError: 'labels_2031'")
    job.hang(19.0, but=[7])
    job.closes("gpu-001", 22.0, 7, 1)
    assert what(only(job)) == ("rank.exit_error", 7, "gpu-001")


def test_the_table_of_a_launcher_names_the_rank_where_nothing_else_is_known(job: Cluster) -> None:
    job.hang(8.0, but=[14])
    job.closes("gpu-002", 10.0, 14, -9)
    nothing = Places()
    (incident,) = incidents(alerts_of(job.found(), packs(), nothing), nothing, packs(), EPOCH + 3600)
    assert what(incident) == ("rank.killed", 14, "gpu-002")
    assert incident.followers == job.ranks - 1
