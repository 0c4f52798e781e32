"""What a node tells when it is asked: limits, versions and variables of the ranks, whom it reaches."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuwatch.agent.processes.settings_report import settings_report
from gpuwatch.hosts.builtin import local_plan
from gpuwatch.session import Session
from gpuwatch.wire import NodeSettings
from tests.agent.trees import process
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

WAIT_S = 240.0


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[str]]:
    """A process that looks like rank 3 of a job."""
    variables = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29511",
        "NCCL_DEBUG": "WARN",
        "NCCL_API_TOKEN": "hidden",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "TORCHELASTIC_RUN_ID": f"particulars-{os.getpid()}",
    }
    lower = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (512, 1024))"
    code = f"{lower}; print(1); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate()


def of(process: subprocess.Popen[str], reported: dict[str, Any]) -> dict[str, Any]:
    (row,) = [row for row in reported["ranks"] if row["pid"] == process.pid]
    assert isinstance(row, dict)
    return row


def test_a_rank_tells_its_limits_and_only_harmless_variables(rank: subprocess.Popen[str]) -> None:
    row = of(rank, settings_report({}))
    assert (row["rank"], row["nofile"]) == (3, 512)
    assert row["variables"]["NCCL_DEBUG"] == "WARN"
    assert row["variables"]["MASTER_PORT"] == "29511"
    assert "hidden" not in str(row)


def test_versions_are_read_from_the_packages_that_are_mapped(tmp_path: Path) -> None:
    proc = tmp_path / "proc" / "77"
    site = tmp_path / "root" / "env" / "site-packages"
    for name in (
        "torch-2.9.1+cu129.dist-info",
        "torchvision-0.24.dist-info",
        "nvidia_nccl_cu12-2.27.5.dist-info",
    ):
        (site / name).mkdir(parents=True)
    proc.mkdir(parents=True)
    (proc / "root").symlink_to(tmp_path / "root")
    (proc / "environ").write_bytes(b"RANK=0\0WORLD_SIZE=2\0")
    (proc / "maps").write_text("7f00-7f01 r-xp 0 08:01 1  /env/site-packages/torch/lib/libtorch_cuda.so\n")
    (row,) = settings_report({}, proc=str(tmp_path / "proc"))["ranks"]
    assert (row["torch"], row["nccl"]) == ("2.9.1+cu129", "2.27.5")


def test_who_can_be_reached_and_who_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_one, socket.create_server(("127.0.0.1", 0)) as closed:
        port, gone = open_one.getsockname()[1], closed.getsockname()[1]
        closed.close()
        reported = settings_report(
            {"reach": [f"127.0.0.1:{port}", f"127.0.0.1:{gone}", "no port"], "ports": [port, gone]}
        )
    assert reported["reached"] == {f"127.0.0.1:{port}": "", f"127.0.0.1:{gone}": "Connection refused"}
    assert reported["listens"] == {str(port): os.getpid(), str(gone): None}


def test_a_session_asks_its_nodes(rank: subprocess.Popen[str]) -> None:
    with Session(local_plan()) as session:
        (name,) = session.fleet.nodes
        until = time.monotonic() + WAIT_S
        asked = session.ask_rank_settings(name)
        while not (asked.done and asked.data is not None):
            assert time.monotonic() < until, asked
            session.poll()
            time.sleep(0.02)
            if asked.error:
                asked = session.ask_rank_settings(name)
        assert not session.fleet.asked
        reported = msgspec.convert(asked.data, NodeSettings)
    assert [one.rank for one in reported.ranks if one.pid == rank.pid] == [3]
    assert reported.shm_total_bytes is not None


def test_two_jobs_without_an_id_are_both_reported_and_helpers_are_not(tmp_path: Path) -> None:
    same = {"RANK": "1", "WORLD_SIZE": "2"}
    for launcher, rank_of_it, loader in ((40, 50, 55), (60, 70, 75)):
        process(tmp_path, launcher, {}, name="bash")
        process(tmp_path, rank_of_it, same, parent=launcher)
        process(tmp_path, loader, same, parent=rank_of_it)
    assert [row["pid"] for row in settings_report({}, proc=str(tmp_path))["ranks"]] == [50, 70]
