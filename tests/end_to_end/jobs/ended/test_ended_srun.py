"""A step of Slurm that is over when gpuwatch connects: all tasks write one file, each with its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.link.start.log_settings import VARIABLE
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.report.once.problems.active import standing
from gpuwatch.rules.load import load_packs
from gpuwatch.session import Session
from gpuwatch.session.containment import Containment
from tests.end_to_end.cluster import watch

LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
CAUSE = "IndexError: index 50304 is out of bounds for dimension 0 with size 50304"
NODES = {0: "n4", 1: "n4", 2: "n5", 3: "n5"}
"""Task -> its node, of a job with a process a rank."""


def raised(task: int, error: str) -> str:
    lines = ("Traceback (most recent call last):", '  File "/opt/train.py", line 9, in <module>', error)
    return "".join(f"{task}: {line}\n" for line in lines)


def step_log(culprit: int, nodes: Mapping[int, str] = NODES) -> str:
    """What `srun -l` leaves of a step that ended a minute ago."""
    begun = datetime.now() - timedelta(seconds=90)
    text = "".join(
        f"{task}: {begun + timedelta(seconds=step):%Y-%m-%d %H:%M:%S},000 INFO step {step}/5000 | loss 2.5\n"
        for step in range(1, 31)
        for task in nodes
    )
    text += raised(culprit, CAUSE)
    text += "".join(raised(task, LOST) for task in nodes if task != culprit)
    ends = [culprit, *(task for task in nodes if task != culprit)]
    return text + "".join(
        f"srun: error: {nodes[task]}: task {task}: Exited with exit code 1\n" for task in ends
    )


@contextmanager
def ended_jobs(folder: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> Iterator[Session]:
    """A session that has judged the folder in which the job was started, on a disk of the first node."""
    proc, home = folder / "proc", folder / "home"
    (proc / "self").mkdir(parents=True)
    home.mkdir()
    for name in ("stat", "meminfo", "loadavg", "uptime", "sys", "mounts", "self/mountinfo"):
        (proc / name).symlink_to(f"/proc/{name}")

    def way(python: str | None, settings: Mapping[str, Any], *rest: Any) -> StartMethod:
        earlier = [str(folder / "job")] if settings["host"] == names[0] else []
        own = {"kmsg": "/none", "proc": str(proc), "earlier_folders": earlier}
        return agent_start(python, {**settings, **own}, *rest)

    monkeypatch.setattr(agent_link, "agent_start", way)
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.chdir(home)
    nodes = tuple(NodeSpec(name, link="local") for name in names)
    with Session(Plan(nodes, interval_s=0.5, source="test")) as session:

        def is_judged() -> bool:
            every = session.fleet.nodes.values()
            found = [file for node in every for file in node.logs if file.source == "found"]
            read = all(file.searched_to is not None for file in found)
            return bool(found) and read and bool(session.book.ended_jobs) and not session.book.behind

        watch(session, lambda _fleet, _now: is_judged())
        yield session


def incident_of(folder: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> Incident:
    """The only one of what the folder holds; the same where the session judges after each frame."""
    received: list[Arrival] = []
    apply = Containment.apply

    def noted(self: Containment, arrival: Arrival) -> None:
        received.append(arrival)
        apply(self, arrival)

    monkeypatch.setattr(Containment, "apply", noted)
    with ended_jobs(folder, monkeypatch, names) as session:
        (incident,) = standing(session.book, session.fleet, monotonic(), time()).incidents
    fleet, book = Fleet(session.plan), AlertBook(load_packs(), session.plan.thresholds)
    for arrival in received:
        fleet.apply(arrival)
        judge(book, fleet, arrival.at)
    judge(book, fleet, monotonic())
    (again,) = standing(book, fleet, monotonic(), time()).incidents
    assert (again.code, again.rank, again.node) == (incident.code, incident.rank, incident.node)
    return incident


def judge(book: AlertBook, fleet: Fleet, now: float) -> None:
    """Judge what the fleet holds at `now`, our monotonic clock, to the end."""
    for _ in range(100):
        book.update(fleet, now, now + time() - monotonic())
        if not book.behind:
            break


@pytest.mark.sampled(1)
@pytest.mark.parametrize("culprit", [1, 3])
def test_the_task_is_the_rank_and_its_node_is_that_of_srun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, culprit: int
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "slurm-99101.out").write_text(step_log(culprit))
    incident = incident_of(tmp_path, monkeypatch, ("n4", "n5"))
    assert (incident.job, incident.code) == ("99101", "code.shape")
    assert (incident.rank, incident.node) == (culprit, NODES[culprit])


def test_the_only_task_that_srun_reports_is_a_rank_where_the_others_logged_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm ends the step after the first failure: the other tasks write nothing more."""
    (tmp_path / "job").mkdir()
    text = (
        step_log(3).partition(f"0: {'Traceback'}")[0] + "srun: error: n5: task 3: Exited with exit code 1\n"
    )
    (tmp_path / "job" / "slurm-99101.out").write_text(text)
    incident = incident_of(tmp_path, monkeypatch, ("n4", "n5"))
    assert (incident.code, incident.rank, incident.node) == ("code.shape", 3, "n5")


def test_a_task_that_starts_several_ranks_is_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = (
        "torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: 5 (pid: 77)"
    )
    text = step_log(1, {0: "n4", 1: "n5"}) + f"1: {launcher}\n"
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "slurm-99101.out").write_text(text)
    incident = incident_of(tmp_path, monkeypatch, ("n4", "n5"))
    assert incident.rank != 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("failed", [True, False])
def test_the_tasks_of_an_ended_job_are_its_ranks_and_its_nodes_those_of_srun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: bool
) -> None:
    (tmp_path / "job").mkdir()
    text = step_log(1) if failed else "".join(step_log(1).partition("1: Traceback")[:1])
    (tmp_path / "job" / "slurm-99101.out").write_text(text)
    with ended_jobs(tmp_path, monkeypatch, ("n4", "n5")) as session:
        (job,) = session.book.ended_jobs
    assert (job.name, job.ranks) == ("99101", (0, 1, 2, 3))
    assert job.nodes == (("n4", "n5") if failed else ("n4",))
