"""Ranks, nodes and GPUs that a line states beside the words of its failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.score import scanned
from tests.runs.placement.joins.places import STEPS, place

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {} has a total capacity of"
    " 79.11 GiB of which 1.10 GiB is free."
)
OLD_XID = "Oct 11 20:10:11 cn7 kernel: NVRM: Xid (PCI:0000:1b:00): 31, pid=99120, name=python, Ch 00000008"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["04:09:47 13/11/26 R12/16 FATAL cusolverDnSgesvd failed: CUSOLVER_STATUS_INTERNAL_ERROR",
          "04:09:52 13/11/26 R00/16 ERROR peer closed the connection",
          "04:09:52 13/11/26 R03/16 ERROR peer closed the connection"], (12, None, None)),
        (["(Worker[rank=10] pid=8810, ip=10.6.0.5) RuntimeError: CUDA error: an illegal instruction was"
          " encountered"],
         (10, "10.6.0.5", None)),
        (["CRITICAL local rank 3 (global 11) on cn5: torch.AcceleratorError: CUDA error: all CUDA-capable"
          " devices are busy or unavailable"], (11, "cn5", None)),
        (["MPI Rank 3: EXCEPTION occurred: CUDA failure 2: out of memory ; GPU=3 ; hostname=phl41"],
         (3, "phl41", 3)),
        (["Training failed on worker rank 5 (ip=10.0.0.4, pid=950): ValueError: Input contains NaN"],
         (5, "10.0.0.4", None)),
        (["flux-shell[1]: task 5 (host cn21) Killed", "terminate called after throwing 'std::runtime_error'",
          "what():  CUDA error: out of memory", "flux-shell[1]: task 5 (host cn21) Killed"],
         (5, "cn21", None)),
        (["[rank9] ASCEND_RT_VISIBLE_DEVICES=4,5,6,7 local_rank=1 device npu:1 host ac2",
          "[rank9] RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 1; 60 GiB total)"],
         (9, "ac2", 5)),
        (["host h41n02 rank 7 cuda 3",
          "ERROR:  One or more process (first noticed rank 7) terminated with signal 11",
          "Job was executed on host(s) <1*batch4>, in queue <batch>", "Exited with exit code 139."],
         (7, "h41n02", None)),
        (["[rank5]: [t] Starting job on jw34, local rank 3", "[rank5]: ValueError: no such split"],
         (5, "jw34", None)),
        (["node_id=aml-7c rank=5 cuda=1", "[rank5]: ValueError: no such split"], (5, "aml-7c", None)),
        (["Host h20-b3 ready", "[rank5]: ValueError: no such split"], (5, "h20-b3", None)),
        (["r0: HIP device 0 0000:05:00.0 gfx942", "r1: HIP device 1 0000:15:00.0 gfx942",
          "r1: HIP error: unspecified launch failure", "r0: RCCL error: unhandled system error"],
         (1, None, 1)),
        (["2026-10-12T03:10:02 [0 / 4] epoch 1 of 4 ranks"] * 2
         + [f"2026-10-12T03:10:0{n} [{n % 4} / 4] epoch 1 batch {n}" for n in range(9)]
         + ["2026-10-12T03:10:09 [2 / 4] ERROR: Out of GPU memory trying to allocate 2.000 GiB"],
         (2, None, None)),
    ],
)  # fmt: skip
def test_a_line_states_its_place(
    tmp_path: Path, lines: list[str], expected: tuple[int | None, str | None, int | None]
) -> None:
    assert place(tmp_path, {"train.log": [*STEPS, *lines]}) == expected


@pytest.mark.parametrize(("device", "gpu"), [(3, 3), (5, None), (0, None)])
def test_the_device_of_a_joined_rank_is_its_gpu_if_it_fits(
    tmp_path: Path, device: int, gpu: int | None
) -> None:
    lines = [
        *STEPS,
        "Uncaught exception on rank 11.",
        "Traceback (most recent call last):",
        OOM.format(device),
    ]
    assert place(tmp_path, {"train.log": lines}) == (11, None, gpu)


def test_the_end_of_an_earlier_jobs_process_explains_nothing(tmp_path: Path) -> None:
    lines = [*STEPS, "[rank2]: Traceback (most recent call last):", "[rank2]: KeyError: 'lr'"]
    assert place(tmp_path, {"train.log": lines, "kern.log": [OLD_XID]})[0] == 2


def test_an_exception_at_the_end_of_a_log_of_steps_is_an_error(tmp_path: Path) -> None:
    steps = [f"2026-10-12 03:{n // 4:02}:0{n % 4} [rank{n % 4}] step {n // 4} loss 2.5" for n in range(80)]
    last = "2026-10-12 03:20:59 CRITICAL [rank1] FloatingPointError: gradient is NaN"
    (tmp_path / "train.log").write_text("\n".join([*steps, last]) + "\n")
    found = scanned(tmp_path)
    (first,) = found["incidents"] or found["alerts"]
    assert (first["class"], first["severity"], first["rank"]) == ("num.grad_nan", "error", 1)


@pytest.mark.parametrize(
    ("started", "rank"), [("python t.py", 2), ("torchrun --nproc_per_node=8 t.py", None)]
)
def test_the_number_of_a_node_is_a_rank_if_it_has_one_process(
    tmp_path: Path, started: str, rank: int | None
) -> None:
    heads = [f"(worker{n}, rank={n}, pid={2950 + n}, ip=10.0.3.{n + 5}) " for n in range(1, 4)]
    heads.insert(0, "(head, rank=0, pid=3511) ")
    starts = [f"{head}{started} t.py --node_rank={n}" for n, head in enumerate(heads)]
    steps = [f"{head}step {step} loss {4 / step:.3f}" for step in range(1, 20) for head in heads]
    lines = [*starts, *steps, heads[2] + "ZeroDivisionError: float division by zero"]
    assert place(tmp_path, {"run.log": lines})[:2] == (rank, "10.0.3.7")


def test_a_kernel_log_is_of_the_node_of_the_rank_whose_pid_it_names(tmp_path: Path) -> None:
    banners = [f"trainer {n} of 8 started, pid {17800 + n} on cn{n // 4}" for n in range(8)]
    killed = "[Mon Oct 12 03:09:59 2026] Memory cgroup out of memory: Killed process 17806 (python)"
    assert place(tmp_path, {"train.log": [*banners, *STEPS], "dmesg.txt": [killed]})[:2] == (6, "cn1")


@pytest.mark.parametrize(
    ("table", "confidence"), [([], "low"), (["10.20.3.44 cn44", "10.20.3.1 cn1"], "medium")]
)
def test_an_address_that_no_line_maps_is_named_with_doubt(
    tmp_path: Path, table: list[str], confidence: str
) -> None:
    lines = [
        f"[2026-10-12 03:09:58] cn{n}:91{n}:966 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got"
        f" completion from peer 10.20.3.44<3355{n}> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
        for n in range(1, 6)
    ]
    (tmp_path / "train.log").write_text("\n".join([*STEPS, *lines]) + "\n")
    (tmp_path / "etc-hosts.txt").write_text("\n".join(table) + "\n")
    first = scanned(tmp_path)["incidents"][0]
    assert (first["node"], first["confidence"]) == ("cn44" if table else "10.20.3.44", confidence)


FOREST = """\
USER         PID    PPID %CPU COMMAND
sam         8800       1  0.1 torchrun --nproc_per_node 3 det.py
sam         8810    8800 99.0  \\_ RANK=0 LOCAL_RANK=0 python det.py
sam         8811    8810 30.0  |   \\_ python det.py
sam         8820    8800 99.0  \\_ RANK=1 LOCAL_RANK=1 python det.py
sam         8821    8820 30.0  |   \\_ python det.py
sam         8830    8800 99.0  \\_ RANK=2 LOCAL_RANK=2 python det.py""".splitlines()
OPERATOR = [
    "PyTorchJob=seg, ReplicaType=Worker expected=3, running=3, succeeded=0, failed=0, Replicas=3",
    "Error pod seg-worker-1 container pytorch exitCode: 139",
]
DESCRIBED = """\
Name:             seg-worker-2
Namespace:        cv
Node:             nd-7/172.21.4.2
Status:           Failed
Reason:           Evicted
Message:          The node was low on resource: ephemeral-storage.""".splitlines()
DF = ["Filesystem      Size  Used Avail Use% Mounted on", "/dev/nvme0n1    800G  800G     0 100% /scratch"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"all.log": ["RuntimeError: DataLoader worker (pid 8821) is killed by signal: Segmentation fault."],
          "ps.txt": FOREST}, (1, None)),
        ({"master.log": ["rank 0 of 4, master seg-master-0:23456"], "operator.log": OPERATOR},
         (2, None)),
        ({"launcher.log": [f"[1,{n}]<stdout>:rank {n} of 4 on seg-worker-{n}" for n in range(4)],
          "pod.txt": DESCRIBED}, (2, "nd-7")),
        ({**{f"vm-{n}.log": [f"process {n}/3 on spot-vm-{'abc'[n]}"] for n in range(3)},
          "serial.txt": ["Oct 12 03:12:01 spot-vm-b google_metadata_script_runner[9]: shutdown-script:"
                         " instance preempted"]}, (1, "spot-vm-b")),
        ({"train.log": ["[rank6] up on cx1-2",
                        "[rank6] OSError: [Errno 28] No space left on device: '/scratch/r6/x'"],
          "df.txt": DF}, (6, "cx1-2")),
    ],
)  # fmt: skip
def test_what_is_kept_beside_logs_is_joined_with_the_ranks(
    tmp_path: Path, files: dict[str, list[str]], expected: tuple[int | None, str | None]
) -> None:
    (tmp_path / "steps.log").write_text("\n".join(STEPS))
    assert place(tmp_path, files)[:2] == expected
