"""Logs that processes write which are not listed as ranks: their job runs, on whatever node they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from time import sleep
from typing import Any

import pytest

from gpuwatch.agent.logs.discovery.holders import held_files, is_same_file, still_held
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.ended_files import is_ended
from gpuwatch.fleet.logs.log_coverage import unranked
from gpuwatch.fleet.logs.shared_identities import SharedIdentities
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.session import Session
from gpuwatch.wire import LogFile, Logs
from tests.agent.trees import wait_until
from tests.end_to_end import cluster
from tests.end_to_end.jobs.ended import test_ended_jobs

pytestmark = pytest.mark.timeout(600)
WAIT_S = 240.0
alone = test_ended_jobs.alone
RANK = """
import sys
from datetime import datetime
for step in range(1, 41):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} step {step}/1000 loss {3 - step / 1000:.4f}", flush=True)
sys.stdin.read()
"""
"""Steps, then silence until the end of its input."""
PLAN = Plan(tuple(NodeSpec(name, link="local") for name in "ab"), interval_s=0.5, source="test")


def silent_ranks(stack: ExitStack, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start two processes with a log each, of which nothing tells a rank."""
    folder.mkdir()
    ranks = []
    for name in ("left", "right"):
        with (folder / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-c", RANK]
            ranks.append(stack.enter_context(subprocess.Popen(command, stdin=PIPE, stdout=log, stderr=log)))
    logs = [folder / f"{name}.log" for name in ("left", "right")]
    assert wait_until(lambda: all("step 40/" in log.read_text() for log in logs), sleep)
    return ranks


def test_the_holders_of_a_log_are_its_writers_until_they_end(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second = silent_ranks(stack, tmp_path / "run")
        left, right = (str(tmp_path / "run" / f"{name}.log") for name in ("left", "right"))
        (tmp_path / "proc").mkdir()
        for rank in (first, second):
            (tmp_path / "proc" / str(rank.pid)).symlink_to(f"/proc/{rank.pid}")
        proc = str(tmp_path / "proc")
        held, _ = held_files(proc, frozenset())
        assert {path: set(pids) for path, pids in held.items()} == {left: {first.pid}, right: {second.pid}}
        assert is_same_file(proc, left, held[left])
        assert not is_same_file(proc, right, held[left])
        first.kill()
        first.wait()
        assert (still_held(proc, left, held[left]), still_held(proc, right, held[right])) == ({}, held[right])


@pytest.mark.parametrize("identity", [None, "nas:/export 7"])
def test_a_file_that_another_node_writes_is_of_no_ended_job(identity: str | None) -> None:
    found = LogFile("/data/a.log", source="found", last_at=9.0, fingerprint="8:2", identity=identity)
    held = LogFile("/mnt/a.log", source="found", pids=[7], fingerprint="8:2", identity=identity)
    left = LogFile("/mnt/a.log", source="found", fingerprint="8:2", identity=identity, last_at=9.0)
    identities = SharedIdentities()
    identities.take("n1", Logs(t=1.0, seq=1, files=[found]))
    assert is_ended(identities.files("n1", [found])[0])
    assert identities.take("n2", Logs(t=1.0, seq=1, files=[held])) == {"n1"}
    assert not is_ended(identities.files("n1", [found])[0])
    assert identities.take("n2", Logs(t=2.0, seq=2, files=[left])) == {"n1"}
    assert is_ended(identities.files("n1", [found])[0])


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True], ids=["one disk", "a network file system"])
def test_the_job_of_silent_processes_without_a_rank_runs(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Node a has the processes; node b only sees their files. Their end is the end of the job."""
    other = tmp_path / "other"
    (other / "self").mkdir(parents=True)
    for name in ("stat", "meminfo", "loadavg", "uptime", "sys", "mounts", "self/mountinfo"):
        (other / name).symlink_to(f"/proc/{name}")
    here = tmp_path / "proc"
    if shared:
        device = alone.stat().st_dev
        place = f"{os.major(device)}:{os.minor(device)} / {alone}"
        for proc in (here, other):
            (proc / "self" / "mountinfo").unlink()
            (proc / "self" / "mountinfo").write_text(f"40 30 {place} rw - nfs4 files:/export rw\n")

    def way(python: str | None, settings: Mapping[str, Any], *rest: Any) -> StartMethod:
        proc = here if settings["host"] == "a" else other
        return agent_start(python, {**settings, "kmsg": str(tmp_path / "kmsg"), "proc": str(proc)}, *rest)

    monkeypatch.setattr(agent_link, "agent_start", way)
    with ExitStack() as stack:
        ranks = silent_ranks(stack, alone / "run7")
        for rank in ranks:
            (here / str(rank.pid)).symlink_to(f"/proc/{rank.pid}")
        session = stack.enter_context(Session(PLAN))
        watch(
            session,
            lambda fleet, _now: (
                {pid for each in unranked(fleet.nodes.values()) for pid in each.pids}
                == {rank.pid for rank in ranks}
            ),
        )
        watch(session, lambda fleet, _now: all(node.logs_complete for node in fleet.nodes.values()))
        watch(session, lambda _fleet, _now: not session.book.behind)
        assert session.book.ended_jobs == ()
        for rank in ranks:
            rank.send_signal(signal.SIGKILL)
            rank.wait()
            (here / str(rank.pid)).unlink()
        watch(session, lambda _fleet, _now: ended_logs(session) == {"left.log", "right.log"})
        assert not unranked(session.fleet.nodes.values())


def ended_logs(session: Session) -> set[str]:
    return {path.rpartition("/")[2] for job in session.book.ended_jobs for _, path in job.files}


def watch(session: Session, until: Callable[[Fleet, float], bool]) -> None:
    cluster.watch(session, until, WAIT_S)
