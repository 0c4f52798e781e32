"""`once --kube` over a kubectl that runs the agent on this machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.cli.running import gpuwatch
from tests.hosts.kube.fake_kubectl import pod, write_kubectl


def once(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return gpuwatch("once", *argv, changes={"PATH": f"{folder}:{os.environ['PATH']}"})


def test_pods_are_nodes_and_one_that_does_not_run_says_why(tmp_path: Path) -> None:
    waiting = pod("run7-worker-9", gpus=8, phase="Pending", waiting={"reason": "ImagePullBackOff"})
    write_kubectl(tmp_path, [waiting, pod("run7-worker-0")])
    for wait in ("20", "80"):  # a busy machine starts an agent late
        done = once(tmp_path, "--kube", "pytorchjob/run7", "--namespace", "ml", "--json", "--wait", wait)
        assert done.returncode == 1, done.stderr
        reported = json.loads(done.stdout)
        if reported["nodes"][0]["state"] == "live":
            break
    failed = {(each["class"], each["node"]) for each in reported["incidents"]}
    assert ("k8s.pod_error", "run7-worker-0") in failed
    running, broken = reported["nodes"]
    assert (running["name"], running["state"]) == ("run7-worker-0", "live")
    assert running["labels"]["kube_node"] == "gpu-0"
    assert (broken["name"], broken["labels"]["kube_reason"]) == ("run7-worker-9", "ImagePullBackOff")
    assert broken["state"] != "live"
    assert "no-such-container" in broken["error"]
    asked = (tmp_path / "calls").read_text().split()
    assert asked[:4] == ["get", "pods", "--namespace", "ml"]


def test_mistakes_are_usage(tmp_path: Path) -> None:
    write_kubectl(tmp_path, [])
    for argv in (
        ("--kube", "app=x"),
        ("--kube", "x"),
        ("--kube", "a=b", "--local"),
        ("--namespace", "x", "--local"),
    ):
        done = once(tmp_path, *argv)
        assert (done.returncode, done.stdout) == (2, ""), argv
