"""Two nodes with one file system: every file is followed by one of them, and nothing is reported twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.session import Session
from tests.agent.logs.conftest import append
from tests.end_to_end.cluster import watch
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 GiB.\n"


def proc_of(folder: Path, shared: Path, *pids: int) -> Path:
    """What a node's /proc says: a file server's mount where `shared` is, and these processes only."""
    (folder / "self").mkdir(parents=True)
    for name in ("stat", "meminfo", "loadavg", "uptime", "sys", "mounts", *map(str, pids)):
        (folder / name).symlink_to(f"/proc/{name}")
    device = shared.stat().st_dev
    line = f"40 30 {os.major(device)}:{os.minor(device)} / {shared} rw - nfs4 files:/export rw\n"
    (folder / "self" / "mountinfo").write_text(line)
    return folder


@pytest.mark.timeout(600)
def test_one_of_two_nodes_follows_and_the_other_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    mine, nobodys = logs / "rank_1.log", logs / "launcher.log"
    nobodys.touch()
    env = {**os.environ, "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    code = "import time; time.sleep(170)"
    with (
        mine.open("ab") as words,
        subprocess.Popen([sys.executable, "-c", code], stdout=words, env=env) as rank,
    ):
        procs = {"a": proc_of(tmp_path / "a", logs), "b": proc_of(tmp_path / "b", logs, rank.pid)}
        unreachable: set[str] = set()

        def way(python: str | None, settings: Mapping[str, Any], *rest: Any) -> StartMethod:
            if settings["host"] in unreachable:
                raise CarrierError("out of order", final=True)
            return agent_start(
                python, {**settings, "kmsg": "/none", "proc": str(procs[settings["host"]])}, *rest
            )

        monkeypatch.setattr(agent_link, "agent_start", way)
        plan = Plan((NodeSpec("a", link="local"), NodeSpec("b", link="local")), interval_s=0.5, source="test")
        try:
            with Session(replace(plan, logs=(f"{logs}/*.log",)), None) as session:

                def followed(path: Path) -> list[str]:
                    return [
                        node.name
                        for node in session.fleet.nodes.values()
                        for one in node.logs
                        if one.path == str(path) and one.state == "following" and node.link.phase == "live"
                    ]

                def reported() -> list[tuple[str, str]]:
                    return sorted(
                        (one.node, one.finding.file.rpartition("/")[2])
                        for one in session.fleet.findings.values()
                        if one.finding.file != "kernel log"
                    )

                watch(session, lambda _fleet, _now: followed(mine) == ["b"] and followed(nobodys) == ["a"])
                append(mine, OOM.format(1))
                append(nobodys, OOM.format(2))
                both = [("a", "launcher.log"), ("b", "rank_1.log")]
                watch(session, lambda _fleet, _now: reported() == both)
                unreachable.add("b")
                hello = session.fleet.nodes["b"].hello
                assert hello is not None
                os.kill(hello.pid, signal.SIGKILL)
                watch(session, lambda _fleet, _now: followed(mine) == ["a"])
                append(nobodys, "the end\n")
                append(mine, OOM.format(30))
                watch(session, lambda _fleet, _now: ("a", "rank_1.log") in reported())
                assert reported() == [("a", "launcher.log"), ("a", "rank_1.log"), ("b", "rank_1.log")]
        finally:
            rank.kill()
