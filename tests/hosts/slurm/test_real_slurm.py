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
from tests.slurm_cluster import SlurmCluster, slurm_cluster

pytestmark = [
    pytest.mark.long,
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
        timeout=90,
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
