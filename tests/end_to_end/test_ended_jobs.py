"""A job that is over when gpuwatch connects: no process leads to its logs, and it is found all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link import agent_link
from gpuwatch.link.log_wishes import VARIABLE
from gpuwatch.link.way import Way, agent_way
from gpuwatch.report.standing import standing
from gpuwatch.session import Session
from tests.cli.running import COMMAND, environment
from tests.end_to_end.cluster import watch

RANK = """
import sys
from datetime import datetime
rank, last, total, fails = int(sys.argv[1]), *map(int, sys.argv[2:4]), sys.argv[4]
for step in range(1, last + 1):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} [rank{rank}] step {step}/{total} loss {3 - step / total:.4f}")
if fails == str(rank):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")
"""


def run_job(folder: Path, last: int, total: int, fails: str = "-", ranks: int = 2) -> None:
    """Real processes that write rank0.log, rank1.log and end."""
    folder.mkdir(parents=True)
    for rank in range(ranks):
        with (folder / f"rank{rank}.log").open("wb") as log:
            command = [sys.executable, "-c", RANK, *map(str, (rank, last, total)), fails]
            subprocess.run(command, stdout=log, stderr=log, check=False)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without other people's shells and jobs; its home, which is where jobs are started."""
    proc, home = tmp_path / "proc", tmp_path / "home"
    (proc / "self").mkdir(parents=True)
    home.mkdir()
    for name in ("stat", "meminfo", "loadavg", "uptime", "sys", "mounts", "self/mountinfo"):
        (proc / name).symlink_to(f"/proc/{name}")

    def way(python: str | None, settings: Mapping[str, Any], modules: Mapping[str, str] | None) -> Way:
        return agent_way(python, {**settings, "kmsg": "/none", "proc": str(proc)}, modules)

    monkeypatch.setattr(agent_link, "agent_way", way)
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(home)
    return home


PLAN = Plan((NodeSpec("a", link="local"),), interval_s=0.5, source="test")


def searched(session: Session) -> bool:
    node = session.fleet.nodes["a"]
    found = [file for file in node.logs if file.source == "found"]
    return (
        node.logs_complete and all(file.searched_to is not None for file in found) and not session.book.behind
    )


def test_once_names_the_job_and_the_rank_and_ends_with_1(tmp_path: Path) -> None:
    run_job(tmp_path / "night-run", 40, 1000, fails="1")
    done = subprocess.run(
        [*COMMAND, "once", "--local", "--json", "--wait", "30"],
        cwd=tmp_path,
        env=environment(**{VARIABLE: "on", "HOME": str(tmp_path)}),
        capture_output=True,
        text=True,
        check=False,
    )
    facts = json.loads(done.stdout)
    (job,) = [each for each in facts["ended_jobs"] if each["files"][0]["file"].startswith(str(tmp_path))]
    assert done.returncode == 1
    assert (job["state"], job["ranks"], job["step"], job["total_steps"]) == ("failed", [0, 1], 40, 1000)
    assert (job["class"], job["rank"]) == ("cuda.illegal_access", 1)
    assert job["job"] in [incident["job"] for incident in facts["incidents"]]


def test_how_each_job_ended_is_judged_as_scan_does(alone: Path) -> None:
    run_job(alone / "finished", 300, 300)
    run_job(alone / "killed", 120, 1000)
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session))
        jobs = {job.name: job for job in session.book.ended_jobs}
        stands = standing(session.book, session.fleet, time())
    assert {name: job.end.state for name, job in jobs.items()} == {
        "finished": "finished",
        "killed": "stopped",
    }
    assert jobs["killed"].end.step == 120
    assert [incident.job for incident in stands.incidents] == ["killed"]


def test_it_is_not_searched_for_where_that_is_switched_off(alone: Path) -> None:
    run_job(alone / "killed", 120, 1000)
    with Session(replace(PLAN, discover=False)) as session:
        watch(session, lambda _fleet, _now: searched(session))
        assert not session.book.ended_jobs
        assert not session.book.incidents


def test_a_file_that_is_still_written_or_old_or_no_training_is_none(alone: Path) -> None:
    run_job(alone / "old", 120, 1000)
    for log in (alone / "old").iterdir():
        text = log.read_text()
        log.write_text("".join(f"2020-01-01{line[10:]}\n" for line in text.splitlines()))
    (alone / "server.log").write_text("GET / 200\nTraceback (most recent call last):\nKeyError: 'user'\n")
    os.mkfifo(alone / "pipe.log")
    (alone / "link.log").symlink_to("/dev/zero")
    with Session(PLAN) as session:
        watch(session, lambda _fleet, _now: searched(session))
        assert not session.book.ended_jobs
        assert [file.path for file in session.fleet.nodes["a"].logs if file.source == "found"] == []
