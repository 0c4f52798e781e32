"""`--slurm` over a real Slurm with two nodes and devices that stand for GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import ROOT
from tests.servers.slurm_cluster import SlurmCluster, slurm_cluster
from tests.servers.sshd import Sshd

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="device files and munge's user need root"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    folder = tmp_path_factory.mktemp("slurm")
    for above in (folder, *folder.parents):
        if above.owner() == "root" and above != Path("/") and above.name != "tmp":
            above.chmod(0o755)  # munge's user passes through
    with slurm_cluster(folder) as running:
        yield running


def gpuwatch(cluster: SlurmCluster, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuwatch", *argv],
        env=cluster.env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_nodes_gpus_and_limit_of_a_running_job(cluster: SlurmCluster) -> None:
    output = f"--output={cluster.folder}/out %j.log"
    job = cluster.submit("sleep 300", "-N2", "--gres=gpu:h100:4", "-t", "30", "-J", "my run", output)
    cluster.wait_for(job, "RUNNING")
    cluster.run("scontrol", "update", "NodeName=node002", "State=DRAIN", "Reason=bad nic")
    try:
        done = gpuwatch(cluster, "once", "--slurm", job, "--wait", "0", "--json")
        assert done.returncode == 1, done.stderr
        reported = json.loads(done.stdout)
        assert [node["name"] for node in reported["nodes"]] == ["node001", "node002"]
        assert [node["labels"]["slurm_gpus"] for node in reported["nodes"]] == ["0-3", "0-3"]
        assert reported["nodes"][1]["labels"]["slurm_reason"].startswith("bad nic")
        assert reported["allocation"]["job"] == job
        assert reported["allocation"]["name"] == "my run"
        assert reported["allocation"]["ends"] - reported["time"] < 30 * 60
        only = gpuwatch(cluster, "once", "--slurm", "me", "--wait", "0", "--json")
        assert json.loads(only.stdout)["allocation"]["job"] == job
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "NodeName=node002", "State=RESUME")


TASK = """
import os, time
open(f"pid-{os.environ['SLURM_PROCID']}", "w").write(str(os.getpid()))
step = 0
while True:
    step += 1
    print(f"step {step}/1000 loss 2.5", flush=True)
    time.sleep(1)
"""
SCRIPT = """export WORLD_SIZE=2 MASTER_ADDR=node001
cd {folder}
srun --output=task-%t.log sh -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec {python} task.py'
"""


def test_tasks_of_a_job_are_ranks_with_pids_and_logs_over_ssh(cluster: SlurmCluster, tmp_path: Path) -> None:
    (cluster.folder / "task.py").write_text(TASK)
    script = SCRIPT.format(folder=cluster.folder, python=sys.executable)
    job = cluster.submit(script, "-N1", "-n2", "-w", "node001", "-t", "30", f"--output={tmp_path}/r-%5j.out")
    cluster.wait_for(job, "RUNNING")
    try:
        with Sshd(tmp_path / "sshd", names=("node001",)) as sshd:
            argv = ("once", "--slurm", job, "-F", str(sshd.client.config), "--json")
            for wait in ("20", "60", "300"):  # on a busy machine the tasks start late
                done = gpuwatch(cluster, *argv, "--wait", wait)
                reported = json.loads(done.stdout)
                (node,) = reported["nodes"]
                ranks = {each["rank"]: each for each in node["processes"] if each["rank"] is not None}
                stepping = {each["job"]: each["step"] for each in reported["jobs"]}
                if len(ranks) == 2 and stepping.get(job):
                    break
        assert (node["name"], node["state"]) == ("node001", "live"), node
        pids = {rank: int((cluster.folder / f"pid-{rank}").read_text()) for rank in (0, 1)}
        assert {rank: each["pid"] for rank, each in ranks.items()} == pids
        assert {each["job"] for each in ranks.values()} == {job}
        logs = {rank: {Path(path).name for path in each["logs"]} for rank, each in ranks.items()}
        assert logs == {0: {"task-0.log"}, 1: {"task-1.log"}}
    finally:
        cluster.run("scancel", job)


def test_the_logs_of_a_dead_job_are_scanned_by_its_id(cluster: SlurmCluster) -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    output = f"--output={cluster.folder}/dead-%j.log"
    job = cluster.submit(f"echo '[rank3]: {line}'; exit 1", "-N1", output)
    cluster.wait_for(job, "FAILED")
    done = gpuwatch(cluster, "scan", "--slurm", job, "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["incidents"][0]["rank"] == 3
    for unknown in ("99999", "x y"):
        assert gpuwatch(cluster, "scan", "--slurm", unknown).returncode == 2
