"""Records that people put beside the logs of a dead job, read by a session over the folder as by `scan`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.runs.saved_outputs import test_records_beside_logs as beside
from tests.session.log_folder.folders import judged_folder

LOGS = {
    f"rank{rank}.log": f"2026-11-22 02:57:0{rank} INFO [rank {rank}] step 41344/100000 loss 2.5\n"
    for rank in (2, 3)
}
SMI = """\
Sun Nov 22 02:58:11 2026
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15    CUDA Version: 12.4     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|=========================================+======================+======================|
|   1  NVIDIA H100 80GB HBM3          On  | 00000000:3B:00.0 Off |                    2 |
| N/A   34C    P0             70W /  700W |      1MiB / 81559MiB |      0%      Default |
+-----------------------------------------+----------------------+----------------------+
"""
ENVIRONMENT = "RANK=3\nLOCAL_RANK=3\nWORLD_SIZE=8\nMASTER_ADDR=10.0.0.1\nHOSTNAME=gpu-003\nNCCL_DEBUG=INFO\n"
PS = """\
USER  PID %CPU %MEM    VSZ   RSS TTY STAT START  TIME COMMAND
u     700  0.0  1.2 900000 50000 ?   D    22:10 10:05 python train.py
"""
FREE = """\
        total  used  free  shared  buff/cache  available
Mem:     2015  2009     1       0           4          1
"""
LSOF = """\
COMMAND PID USER FD TYPE DEVICE SIZE/OFF NODE NAME
python  700    u 1w  REG  259,2    81920 1234 /home/u/run7/rank3.log
"""
RECORDS: Mapping[str, tuple[str, beside.Wanted | None]] = {
    "kubectl describe pod": (
        beside.POD.format(where="State", reason=beside.KILLED, code=137),
        ("oom.host.cgroup", beside.NODE, 3, beside.UTC),
    ),
    "docker inspect": (
        beside.INSPECT.format(oom="true", code=137), ("oom.host.cgroup", beside.NODE, 3, beside.UTC)
    ),
    "sacct": (
        beside.SACCT.format(state="NODE_FAIL", code="0:0"),
        ("slurm.node_failure", beside.NODE, None, beside.HERE),
    ),
    "scontrol show job": (
        beside.JOB.format(state="TIMEOUT", code="0:0"), ("slurm.time_limit", None, None, beside.HERE)
    ),
    "scontrol show node": (
        beside.SLURM_NODE.format(state="DOWN*+DRAIN"), ("slurm.node_failure", beside.NODE, None, beside.HERE)
    ),
    "df": (beside.DF.format(used=100), ("storage.full", None, None, None)),
    "ibstat": (beside.IBSTAT.format(state="Down"), ("net.nic.link", None, None, None)),
    "nvidia-smi": (SMI, ("gpu.xid.ecc", None, None, beside.HERE)),
    "printenv": (ENVIRONMENT, None),
    "ps": (PS, None),
    "free": (FREE, ("host.memory_low", None, None, None)),
    "lsof": (LSOF, None),
    "lsof, a deleted log": (
        LSOF.rstrip() + " (deleted)\n", ("storage.deleted_log", None, None, None)
    ),
}  # fmt: skip
"""Command -> its output, and the fact in it; None: no failure (an environment tells the node of its rank)."""


@pytest.fixture(scope="module")
def packs() -> Packs:
    return load_packs()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", RECORDS)
def test_a_record_is_read_by_scan_and_by_a_session(tmp_path: Path, packs: Packs, command: str) -> None:
    text, wanted = RECORDS[command]
    for name, lines in {**LOGS, "notes.txt": text}.items():
        (tmp_path / name).write_text(lines)
    scanned = scan(gather([tmp_path]), packs.rules, "agent")
    assert not scanned.skipped
    reported = judged(scanned, packs, time.time(), 0.1)
    with judged_folder(tmp_path) as session:
        listed = {Path(file.path).name for node in session.fleet.nodes.values() for file in node.logs}
        shown = list(session.book.alerts.values())
    assert "notes.txt" in listed
    for found in ([*reported.outside, *(a for one in reported.incidents for a in one.alerts)], shown):
        assert_told(found, wanted)
    if command == "printenv":
        nodes = {each.name.rpartition("/")[2]: each.node for each in scanned.files}
        assert nodes["rank3.log"] == beside.NODE


def assert_told(alerts: list[Alert], wanted: beside.Wanted | None) -> None:
    """The fact is among the alerts; without one none is of the record."""
    of_record = [each for each in alerts if (each.proof[0].file or "").endswith("notes.txt")]
    if wanted is None:
        assert not of_record
        return
    code, node, rank, at = wanted
    (alert,) = (each for each in of_record if each.code == code)
    assert alert.rank == rank
    assert node is None or alert.node == node
    assert at is None or (alert.timed, alert.first) == (True, at)
