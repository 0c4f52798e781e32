"""What people put beside logs: what cluster and host commands tell of a failure, with node, rank and time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.saved_outputs.sections import is_environment_dump
from gpuwatch.runs.scan.scan import scan
from tests.corpus.score import scanned

Wanted: TypeAlias = tuple[str, str | None, int | None, float | None]
"""Class, node, rank, time."""
NODE, KILLED, LAST = "gpu-003", "OOMKilled", "Last State"
UTC, HERE = 1795316291.0, datetime(2026, 11, 22, 2, 58, 11).timestamp()

POD = """\
Name:             run7-worker-3
Namespace:        ml
Node:             gpu-003/10.0.0.3
Status:           Failed
Containers:
  pytorch:
    Image:          nvcr.io/nvidia/pytorch:24.05-py3
    {where}:     Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Sat, 21 Nov 2026 22:10:05 +0000
      Finished:     Sun, 22 Nov 2026 03:58:11 +0100
    Restart Count:  0
    Environment:
      RANK:        3
      WORLD_SIZE:  8
Events:           <none>
"""
EVICTED = """\
Name:             run7-worker-3
Namespace:        ml
Node:             gpu-003/10.0.0.3
Status:           Failed
Reason:           Evicted
Message:          The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 8Gi.
Containers:
  pytorch:
    State:          Terminated
      Reason:       Error
      Exit Code:    137
Events:           <none>
"""
INSPECT = """\
[
    {{
        "Id": "0a1b2c",
        "State": {{
            "Status": "exited",
            "OOMKilled": {oom},
            "ExitCode": {code},
            "FinishedAt": "2026-11-22T02:58:11.123456789Z"
        }},
        "Config": {{
            "Hostname": "gpu-003",
            "Env": [
                "RANK=3",
                "WORLD_SIZE=8"
            ]
        }}
    }}
]
"""
SACCT = """\
JobID           JobName      State ExitCode                 End        NodeList
------------ ---------- ---------- -------- ------------------- ---------------
418207             run7 {state:<10} {code:<8} 2026-11-22T02:58:11         gpu-003
418207.0       torchrun {state:<10} {code:<8} 2026-11-22T02:58:11         gpu-003
"""
JOB = """\
JobId=418207 JobName=run7
   UserId=u(1000) GroupId=u(1000) MCS_label=N/A
   JobState={state} Reason=None Dependency=(null)
   ExitCode={code} StartTime=2026-11-21T22:10:01 EndTime=2026-11-22T02:58:11 Deadline=N/A
   NodeList=gpu-003
"""
SLURM_NODE = """\
NodeName=gpu-003 Arch=x86_64 CoresPerSocket=32
   Gres=gpu:8
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A
   Reason=Not responding [slurm@2026-11-22T02:58:11]
"""
DF = """\
Filesystem      Size  Used Avail Use% Mounted on
/dev/nvme0n1p2  439G  439G     0 {used}% /scratch
/dev/loop3       64M   64M     0 100% /snap/core20/1
tmpfs           504G  1.2G  503G   1% /dev/shm
"""
IBSTAT = """\
CA 'mlx5_0'
\tCA type: MT4123
\tPort 1:
\t\tState: {state}
\t\tPhysical state: LinkUp
CA 'mlx5_1'
\tCA type: MT4123
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
"""
NVLINK = "".join(
    f"GPU {gpu}: NVIDIA H100 (UUID: GPU-0{gpu})\n"
    + "".join(
        f"\t Link {link}: {'<inactive>' if link == 3 or (gpu, link) == (2, 1) else '26.562 GB/s'}\n"
        for link in range(4)
    )
    for gpu in range(3)
)
IBSTATUS = """\
Infiniband device 'mlx5_2' port 1 status:
\tstate:\t\t {state}
\tphys state:\t 2: Polling
Infiniband device 'mlx5_3' port 1 status:
\tstate:\t\t 4: ACTIVE
"""
RDMA = (
    "link mlx5_0/1 state ACTIVE physical_state LINK_UP\nlink mlx5_1/1 state {state} physical_state POLLING\n"
)
REASONS = "REASON       USER  TIMESTAMP           NODELIST\n{reason}  slurm 2026-11-22T02:58:11 gpu-003\n"
PENDING = JOB.replace("{state} Reason=None", "PENDING Reason={reason}").replace("{code}", "0:0")


@pytest.fixture(scope="module")
def packs() -> Packs:
    return load_packs()


def alerts(folder: Path, packs: Packs, **files: str) -> Sequence[Alert]:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    reported = judged(scan(gather([folder]), packs.rules, "agent"), packs, time.time(), 0.1)
    return [*reported.outside, *(alert for incident in reported.incidents for alert in incident.alerts)]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("pod_yaml", POD.format(where="State", reason=KILLED, code=137), ("oom.host.cgroup", NODE, 3, UTC)),
        ("pod_txt", POD.format(where=LAST, reason="Error", code=139), ("proc.segfault", NODE, 3, UTC)),
        ("pod_txt", EVICTED, ("k8s.storage_eviction", NODE, None, None)),
        ("box_json", INSPECT.format(oom="true", code=137), ("oom.host.cgroup", NODE, 3, UTC)),
        ("box_json", INSPECT.format(oom="false", code=134), ("proc.abort", NODE, 3, UTC)),
        ("sacct_txt", SACCT.format(state="OUT_OF_ME+", code="0:125"), ("oom.host.cgroup", NODE, None, HERE)),
        ("sacct_csv", SACCT.format(state="NODE_FAIL", code="0:0"), ("slurm.node_failure", NODE, None, HERE)),
        ("sacct_txt", SACCT.format(state="FAILED", code="0:9"), ("proc.sigkill", NODE, None, HERE)),
        ("job_cfg", JOB.format(state="TIMEOUT", code="0:0"), ("slurm.time_limit", None, None, HERE)),
        ("node_txt", SLURM_NODE.format(state="DOWN*+DRAIN"), ("slurm.node_failure", NODE, None, HERE)),
        ("df_md", DF.format(used=100), ("storage.full", None, None, None)),
        ("ib_txt", IBSTAT.format(state="Down"), ("net.nic.link", None, None, None)),
        ("ibstatus_txt", IBSTATUS.format(state="1: DOWN"), ("net.nic.link", None, None, None)),
        ("rdma_txt", RDMA.format(state="DOWN"), ("net.nic.link", None, None, None)),
        ("nvlink_txt", NVLINK, ("gpu.nvlink_inactive", None, None, None)),
        ("sinfo_txt", REASONS.format(reason="Not responding"), ("slurm.node_failure", NODE, None, HERE)),
        ("job_txt", PENDING.format(reason="BadConstraints"), ("batch.job_waits", None, None, None)),
    ],
)  # fmt: skip
def test_a_record_tells_what_failed_where_and_when(
    tmp_path: Path, packs: Packs, name: str, text: str, wanted: Wanted
) -> None:
    (alert,) = alerts(tmp_path, packs, **{name: text})
    code, node, rank, at = wanted
    assert (alert.code, alert.rank) == (code, rank)
    assert node is None or alert.node == node
    assert at is None or (alert.timed, alert.first) == (True, at)


@pytest.mark.parametrize(
    "text",
    [
        POD.format(where="State", reason="Completed", code=0),
        INSPECT.format(oom="false", code=0),
        SACCT.format(state="COMPLETED", code="0:0"),
        JOB.format(state="COMPLETED", code="0:0"),
        JOB.format(state="RUNNING", code="0:0"),
        SLURM_NODE.format(state="IDLE"),
        SLURM_NODE.format(state="IDLE+DRAIN"),
        DF.format(used=99),
        IBSTAT.format(state="Active"),
        IBSTATUS.format(state="4: ACTIVE"),
        RDMA.format(state="ACTIVE"),
        NVLINK.replace("Link 1: <inactive>", "Link 1: 26.562 GB/s"),
        REASONS.format(reason="maintenance"),
        PENDING.format(reason="Priority"),
    ],
)
def test_a_record_of_a_healthy_job_or_node_tells_nothing(tmp_path: Path, packs: Packs, text: str) -> None:
    assert not [alert for alert in alerts(tmp_path, packs, record_txt=text) if alert.severity != "info"]


def test_an_evicted_pod_names_what_its_node_was_low_on(tmp_path: Path, packs: Packs) -> None:
    (alert,) = alerts(tmp_path, packs, pod_txt=EVICTED)
    assert (alert.fields["status"], alert.fields["resource"]) == ("Evicted", "ephemeral-storage")


@pytest.mark.parametrize("by", ["CANCELLED by 1000", "CANCELLED"])
def test_a_job_that_somebody_cancelled_is_a_warning(tmp_path: Path, packs: Packs, by: str) -> None:
    cancelled = f"slurmstepd: error: *** JOB 418207 ON {NODE} CANCELLED AT 2026-11-22T02:58:11 ***\n"
    found = alerts(tmp_path, packs, sacct_txt=SACCT.format(state=by, code="0:0"), job_out=cancelled)
    assert {(alert.code, alert.severity) for alert in found} == {("slurm.cancelled", "warning")}


def test_of_several_nodes_each_line_names_its_own(tmp_path: Path, packs: Packs) -> None:
    text = "".join(
        f"gpu-{node}: {line}\n"
        for node, used in (("001", 100), ("002", 50))
        for line in DF.format(used=used).splitlines()
    )
    (alert,) = alerts(tmp_path, packs, df_txt=text)
    assert (alert.code, alert.node) == ("storage.full", "gpu-001")


def test_a_dump_of_the_environment_tells_where_a_rank_ran(tmp_path: Path, packs: Packs) -> None:
    dump = "RANK=3\nLOCAL_RANK=3\nWORLD_SIZE=8\nMASTER_ADDR=gpu-001\nHOSTNAME=gpu-003\nLS_COLORS=rs=0\n"
    (tmp_path / "rank3.log").write_text(
        "2026-11-22 02:58:11 RuntimeError: CUDA error: an illegal memory access\n"
    )
    (tmp_path / "env.cfg").write_text(dump)
    reported = scan(gather([tmp_path]), packs.rules, "agent")
    assert {file.name.rpartition("/")[2] for file in reported.files} == {"rank3.log", "env.cfg"}
    assert [(place.rank, place.node) for place in reported.places.ranks] == [(3, "gpu-003")]
    assert is_environment_dump(dump.encode())
    assert not is_environment_dump(b"[trainer]\nrank=3\nRANK=4\n")


@pytest.mark.parametrize(
    "words",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
)
def test_tables_of_other_nodes_do_not_settle_the_error_of_one(tmp_path: Path, words: str) -> None:
    """`pdsh nvidia-smi`: the lines below the error are not those of a job that went on."""
    table = "".join(
        f"| {gpu} NVIDIA H100 80GB HBM3 On | 00000000:{gpu:02}:00.0 Off | 0 |\n" for gpu in range(8)
    )
    nodes = {"dgx06": table, "dgx07": words, "dgx08": table}
    lines = [f"{node}: {line}\n" for node, text in nodes.items() for line in text.splitlines()]
    (tmp_path / "nvidia-smi-all.txt").write_text("".join(lines))
    (incident,) = scanned(tmp_path)["incidents"]
    assert incident["node"] == "dgx07"
    assert incident["severity"] in ("error", "critical")
