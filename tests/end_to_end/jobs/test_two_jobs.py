"""Jobs without an id that share a machine, watched by a real agent: nothing of one is laid to another."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.session import Session
from tests.agent.logs.conftest import append
from tests.end_to_end.cluster import watch
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

LAUNCHER = """
import os, subprocess, sys, time
for rank in range(2):
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "13"}
    with open(f"{sys.argv[1]}/rank_{rank}.out", "ab") as words:
        argv = [sys.executable, "-c", "import time; time.sleep(170)"]
        subprocess.Popen(argv, stdout=words, stderr=words, env={**os.environ, **numbers})
time.sleep(170)
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 GiB.\n"
FULL = "OSError: [Errno 28] No space left on device: '/scratch/step_400.pt'\n"
SIGNALLED = "Received SIGTERM death signal, shutting down workers\n"


@contextmanager
def job(logs: Path, name: str, port: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """Two ranks with logs in a folder of their own; all launchers write into one other folder."""
    own, launchers = logs / name, logs / "launchers"
    own.mkdir(parents=True)
    launchers.mkdir(exist_ok=True)
    master = {} if port is None else {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with (launchers / f"{name}.log").open("ab") as words:
        argv = [sys.executable, "-c", LAUNCHER, str(own)]
        launched = subprocess.Popen(argv, stdout=words, env={**os.environ, **master}, start_new_session=True)
    try:
        yield launched
    finally:
        os.killpg(launched.pid, signal.SIGKILL)
        launched.wait()


def test_each_incident_is_of_one_job(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    host = platform.node()
    one, other, unnamed = f"{host}:29611", f"{host}:29612", "unnamed-13"  # a size that no other test has
    plan = Plan((NodeSpec("n1", link="local"),), interval_s=0.5, source="test")
    with ExitStack() as jobs:
        jobs.enter_context(job(logs, "one", 29611))
        jobs.enter_context(job(logs, "other", 29612))
        with (
            job(logs, "unnamed", None) as launched,
            Session(replace(plan, logs=(f"{logs}/**/*.log",)), None) as session,
        ):
            node = session.fleet.nodes["n1"]

            def files() -> dict[str, str | None]:
                return {str(Path(each.path).relative_to(logs)): each.job for each in node.logs
                        if each.path.startswith(str(logs))}  # fmt: skip

            names = {"one": one, "other": other, "unnamed": unnamed}
            expected = {f"{name}/rank_{rank}.out": job for name, job in names.items() for rank in range(2)}
            expected.update({f"launchers/{name}.log": job for name, job in names.items()})
            watch(session, lambda _fleet, _now: files() == expected)
            os.killpg(launched.pid, signal.SIGKILL)
            watch(session, lambda _fleet, _now: unnamed not in {each.job for each in node.processes})
            append(logs / "one" / "rank_1.out", OOM.format(1))
            append(logs / "launchers" / "other.log", SIGNALLED)
            append(logs / "unnamed" / "rank_1.out", OOM.format(3))
            append(logs / "unnamed" / "rank_0.out", FULL)

            expected_words = {
                one: [("oom.cuda", 1)],
                other: [("launch.agent_signalled", None), ("proc.sigterm", None)],
                unnamed: [("oom.cuda", 1), ("storage.full", 0)],
            }
            try:
                watch(session, lambda _fleet, _now: words_of(session) == expected_words)
            except AssertionError:
                assert words_of(session) == expected_words  # what was reported instead


def words_of(session: Session) -> dict[str | None, list[tuple[str, int | None]]]:
    """Job -> the lines in its incident; None: those of no job. What a machine suffers besides is left out."""
    found: dict[str | None, list[tuple[str, int | None]]] = {}
    for incident in session.book.incidents:
        lines = [each for each in incident.alerts if each.proof[0].kind == "line" and not each.kernel]
        if lines:
            found.setdefault(incident.job, []).extend((each.code, each.rank) for each in lines)
    return {job: sorted(words) for job, words in found.items()}
