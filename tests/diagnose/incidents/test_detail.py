# ruff: noqa: E501  log lines stay whole
"""The deciding detail of the key line stands in the sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

PACKS = load_packs()


def first(folder: Path, text: str) -> Incident:
    (folder / "train.log").write_text(text + "\n")
    done = scan(gather([folder]), PACKS.rules, "agent", cores=1)
    alerts = alerts_of([LocatedFinding(each.node, each.finding) for each in done.located], PACKS, done.places)
    return incidents(alerts, done.places, PACKS, 0.0)[0]


@pytest.mark.parametrize(
    ("text", "details"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. GPU 5 has a total capacity of "
            "79.11 GiB of which 1.02 GiB is free.",
            ["3.25 GiB asked", "1.02 GiB free of 79.11 GiB", "device 5"],
        ),
        ("ModuleNotFoundError: No module named 'deepspeed'", ["'deepspeed'"]),
        ("ImportError: /env/lib/kern.so: undefined symbol: _ZN3c10Ev", ["/env/lib/kern.so", "_ZN3c10Ev"]),
        ("OSError: [Errno 28] No space left on device: '/scratch/ck/80.pt'", ["/scratch/ck/80.pt"]),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/m.json'", ["/data/m.json"]),
        ("PermissionError: [Errno 13] Permission denied: '/cache/hub'", ["/cache/hub"]),
        (
            "[  100.000000] Out of memory: Killed process 140 (python) total-vm:2000000kB, anon-rss:1044480kB, file-rss:0kB",
            ["process python, 0.996 GB resident"],
        ),
        (
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x768 and 1024x4096)",
            ["64x768 and 1024x4096"],
        ),
        (
            "RuntimeError: Error(s) in loading state_dict for GPT:\n\tsize mismatch for embed.weight: copying a param "
            "with shape torch.Size([50257, 768]) from checkpoint, the shape in current model is "
            "torch.Size([50304, 768]).",
            ["embed.weight", "[50257, 768]", "[50304, 768]"],
        ),
        (
            "kernel: Memory cgroup out of memory: Killed process 8812 (trainer) total-vm:99000000kB, "
            "anon-rss:63000000kB, file-rss:100kB\n"
            "kernel: oom_reaper: reaped process 8812 (trainer), now anon-rss:0kB",
            ["trainer", "60.1 GB", "limit"],
        ),
        (
            "kernel: python3 invoked oom-killer: gfp_mask=0x140cca, order=0\n"
            "kernel: Out of memory: Killed process 4411 (trainer) total-vm:9kB, anon-rss:510123456kB, file-rss:8kB\n"
            "kernel: oom_reaper: reaped process 4411 (trainer), now anon-rss:0kB",
            ["trainer", "486 GB", "OOM killer"],
        ),
        (
            "n1:1:9 [0] NCCL WARN NET/IB : Got completion from peer 10.9.9.2<51123> with status=12 opcode=129 len=0 "
            "vendor err 129 (Recv) localGid fe80::1 remoteGids fe80::2 hca mlx5_3",
            ["10.9.9.2", "mlx5_3"],
        ),
        ("srun: error: cn18: task 2: Exited with exit code 1", ["rank 2 (cn18)", "exit code 1"]),
        ("srun: error: cn18: tasks 4-7: Out Of Memory", ["tasks 4-7 on cn18"]),
        ("srun: error: cn18: task 5: Killed", ["rank 5 (cn18)"]),
        (
            "[123.4] NVRM: Xid (PCI:0000:3b:00): 95, pid=4444, name=python, Uncontained: FBHUB.",
            ["Xid 95", "PCI 0000:3b:00"],
        ),
        (
            "Mar  4 02:11:02 cn03 kernel: mlx5_core 0000:5e:00.0 ib0: Link down",
            ["cn03", "ib0", "PCI 0000:5e:00.0"],
        ),
        (
            "1m   Warning   OOMKilling  node/ip-10-0-3-7  Memory cgroup out of memory: Killed process 991 (python)",
            ["ip-10-0-3-7", "process python"],
        ),
        (
            "Warning  Evicted  pod/trainer-2  The node was low on resource: ephemeral-storage. Threshold: 10Gi.",
            ["trainer-2", "Evicted", "ephemeral-storage"],
        ),
        (
            "5m   Warning   BackOff   pod/web-1   Back-off restarting failed container",
            ["pod web-1", "BackOff"],
        ),
    ],
)
def test_the_sentence_holds_what_decides(tmp_path: Path, text: str, details: list[str]) -> None:
    sentence = first(tmp_path, text).headline
    assert [each for each in details if each.lower() not in sentence.lower()] == [], sentence


def test_a_killed_process_leads_before_the_line_of_the_reaper(tmp_path: Path) -> None:
    incident = first(
        tmp_path,
        "[Wed Mar 11 09:13:31 2026] python invoked oom-killer: gfp_mask=0xcc0, order=0\n"
        "[Wed Mar 11 09:13:32 2026] Memory cgroup out of memory: Killed process 8812 (trainer) total-vm:9kB, "
        "anon-rss:63000000kB\n"
        "[Wed Mar 11 09:13:33 2026] oom_reaper: reaped process 8812 (trainer), now anon-rss:0kB\n",
    )
    assert incident.code == "oom.host.cgroup"
    assert incident.cause is not None
    assert "Killed process 8812" in incident.cause.proof[0].text


def test_a_data_loaders_worker_is_no_worker_of_ray(tmp_path: Path) -> None:
    incident = first(
        tmp_path, "RuntimeError: DataLoader worker (pid 77120) exited unexpectedly with exit code 1."
    )
    assert {alert.code for alert in incident.alerts} <= {"data.loader_crash", "rank.exit_error"}


def test_a_disabled_flight_recorder_dumps_nothing(tmp_path: Path) -> None:
    incident = first(
        tmp_path,
        "[rank0]:[E311 09:45:20.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=71, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800088 "
        "milliseconds before timing out.\n"
        "[rank0]:[E311 09:45:20.2 ProcessGroupNCCL.cpp:685] [Rank 0] Stack trace of the failed collective not found, "
        "potentially because FlightRecorder is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE.\n",
    )
    assert "nccl.flight_recorder_dump" not in {alert.code for alert in incident.alerts}


@pytest.mark.parametrize(
    ("text", "shown", "hidden"),
    [
        ("OSError: [Errno 122] Disk quota exceeded", "isk quota exceeded", "Errno"),
        ("OSError: [Errno 116] Stale file handle", "tale file handle", "Errno"),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of "
            "memory in memory space vmem. Used 33.02M of 16.00M vmem. Exceeded vmem capacity by 17.02M.",
            "33.02M used of 16.00M",
            "permanent",
        ),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 71 got signal: 1", "(SIGHUP)", ": 1"),
        ("Received Signals.SIGUSR2 death signal, shutting down workers", "(SIGUSR2)", "death"),
        ("n4:7:9 [2] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error", "(port error)", "NET/IB"),
        ("/opt/ext/libfused.so: undefined symbol: _ZN9fused_opEv", "/opt/ext/libfused.so: symbol _ZN9", "undefined"),
        (
            "[rank2]: torch.AcceleratorError: CUDA error: unspecified launch failure in kernel 'k_1', please check the "
            "stack trace above for the root cause",
            "",
            "please check",
        ),
        ("RuntimeError: synAcquireDevice failed, synStatus=8 [Device not found] Device acquire failed.", "HPU", "GPU"),
    ],
)  # fmt: skip
def test_the_sentence_has_the_particular_and_states_nothing_twice(
    tmp_path: Path, text: str, shown: str, hidden: str
) -> None:
    incident = first(tmp_path, text)
    assert shown in incident.headline
    assert hidden not in incident.headline
    assert "older" not in incident.because
