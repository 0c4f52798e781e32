"""A run of torchrun on two nodes that is over when gpuwatch connects: one job, with its last attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.link.start.log_settings import VARIABLE
from gpuwatch.report.once.problems.active import standing
from gpuwatch.session import Session
from tests.end_to_end.cluster import watch

LOST = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.77.0.1]"
)
NODES = {"a": ("x50kq_1z", (0, 1)), "b": ("8jzy3cz7", (2, 3))}
"""Name -> what its agent of torchrun adds to the run id, and the ranks there."""


def stamp(ago_s: float) -> str:
    return f"{datetime.now() - timedelta(seconds=ago_s):%Y-%m-%d %H:%M:%S},000"


def raised(error: str) -> str:
    return f'Traceback (most recent call last):\n  File "/opt/train.py", line 9, in <module>\n{error}\n'


def steps(rank: int, first: int, last: int, ago_s: float) -> str:
    """Lines with steps that end `ago_s` seconds ago."""
    return "".join(
        f"{stamp(ago_s + last - step)} INFO [rank{rank}] step {step}/5000 | loss 2.5\n"
        for step in range(first, last + 1)
    )


def write_run(folder: Path, suffix: str, ranks: tuple[int, ...], culprits: tuple[int, int]) -> None:
    """What torchrun with `--log-dir lg --max-restarts 1` leaves on a node, with each attempt's culprit."""
    launcher = []
    causes = "FileNotFoundError: [Errno 2] No such file or directory: '/data/vocab.json'", "KeyError: 'mask'"
    for attempt, (ago, cause) in enumerate(zip((200.0, 60.0), causes, strict=True)):
        for local, rank in enumerate(ranks):
            own = folder / "lg" / f"d5_{suffix}" / f"attempt_{attempt}" / str(local)
            own.mkdir(parents=True)
            (own / "stdout.log").write_text(steps(rank, 1, 10 + attempt * 10, ago))
            (own / "stderr.log").write_text(raised(cause if culprits[attempt] == rank else LOST))
        launcher.append(f"{stamp(ago - 1)} torchelastic ERROR failed (exitcode: 1) local_rank: 0 (pid: 77)\n")
        if attempt == 0:
            restart = "Worker group FAILED. 1/1 attempts left; will restart worker group"
            launcher.append(f"{stamp(ago - 2)} INFO {restart}\n")
    (folder / "launch.log").write_text("".join(launcher))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two nodes, each with the folder of its own disk in which the job was started."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    for name in ("stat", "meminfo", "loadavg", "uptime", "sys", "mounts", "self/mountinfo"):
        (proc / name).symlink_to(f"/proc/{name}")

    def way(python: str | None, settings: Mapping[str, Any], *rest: Any) -> StartMethod:
        own = {"kmsg": "/none", "proc": str(proc), "earlier_folders": [str(tmp_path / settings["host"])]}
        return agent_start(python, {**settings, **own}, *rest)

    monkeypatch.setattr(agent_link, "agent_start", way)
    monkeypatch.setenv(VARIABLE, "on")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    for name, (suffix, ranks) in NODES.items():
        write_run(tmp_path / name, suffix, ranks, culprits=(1, 2))
    nodes = tuple(NodeSpec(name, link="local") for name in NODES)
    with Session(Plan(nodes, interval_s=0.5, source="test")) as session:
        watch(session, lambda _fleet, _now: _is_searched(session))
        yield session


def _is_searched(session: Session) -> bool:
    nodes = session.fleet.nodes.values()
    found = [file for node in nodes for file in node.logs if file.source == "found"]
    done = all(node.logs_complete for node in nodes) and all(file.searched_to is not None for file in found)
    return done and len(found) >= 18 and not session.book.behind


def _standing(session: Session) -> Sequence[Incident]:
    return standing(session.book, session.fleet, monotonic(), time()).incidents


@pytest.mark.long
def test_its_agents_logs_are_of_one_job(session: Session) -> None:
    (job,) = session.book.ended_jobs
    assert (job.name, job.nodes, job.ranks) == ("d5", ("a", "b"), (0, 1, 2, 3))


@pytest.mark.long
def test_the_cause_is_that_of_the_last_attempt(session: Session) -> None:
    watch(session, lambda _fleet, _now: len(_standing(session)) == 1 and not session.book.behind)
    (incident,) = _standing(session)
    assert (incident.job, incident.node, incident.rank, incident.code) == ("d5", "b", 2, "python.exception")
