"""What is known of one node only: old logs, hangs, events, limits, reboots."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.diagnose.hang import hang_threshold
from gpuwatch.diagnose.preflight.checklist import checklist
from gpuwatch.session import Session
from gpuwatch.session.hang import hang_queries
from gpuwatch.session.rank_settings import ask_all
from gpuwatch.tui.actions.action_targets import about_incident
from tests.agent.trees import UPTIME
from tests.drills.jobs import Job, StartJob, end
from tests.drills.namespaces import Cluster
from tests.end_to_end.cluster import watch
from tests.end_to_end.hang.hanging import py_spy
from tests.end_to_end.launched import LAUNCHER, pause
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

BOTH = ("n1", "n2")
XID = "NVRM: Xid (PCI:0000:11:00): 79, pid=4711, name=python, GPU has fallen off the bus."
FEW_FILES = 256
HANGS = """do
def read_shard():
    time.sleep(3600)
def wait_for_the_others():
    time.sleep(3600)
read_shard() if os.environ["RANK"] == "2" else wait_for_the_others()"""
SAID = "evaluating on rank 2"
EVALUATES = """do
def wait_for_the_others():
    time.sleep(3600)
if os.environ["RANK"] == "2":
    line("SAID")
    time.sleep(3600)
wait_for_the_others()""".replace("SAID", SAID)
WRITES = """do
def wait_for_the_others():
    time.sleep(3600)
if os.environ["RANK"] == "2":
    with open(sys.argv[1] + ".pt", "wb", 0) as out:
        while True:
            out.write(bytes(1 << 14))
            time.sleep(0.02)
wait_for_the_others()"""
SHARED = """do
out = open(os.path.dirname(sys.argv[1]) + "/../shared.log", "a", buffering=1)
number = 0
while not os.path.exists(sys.argv[1] + ".fail"):
    number += 1
    out.write("[rank%s]: step %d/100000 loss 2.5\\n" % (os.environ["RANK"], number))
    time.sleep(0.2)
out.write("[rank%s]: RuntimeError: CUDA error: device-side assert triggered\\n" % os.environ["RANK"])
os._exit(1)"""
LIMIT = f"do\nimport resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({FEW_FILES}, {FEW_FILES}))"


@contextmanager
def hanging(start_job: StartJob, order: str) -> Iterator[Job]:
    """A job on both nodes whose four ranks do as ordered after a few steps."""
    py_spy()
    with start_job("hangs", nodes=BOTH) as run:
        run.until(lambda: all(run.steps(rank) for rank in range(4)))
        for rank in range(4):
            run.order(rank, order)
        yield run


def test_what_befell_a_node_before_a_job_is_not_of_it(
    start_job: StartJob, cluster: Cluster, session: Session
) -> None:
    watch(session, lambda fleet, _now: all(node.hello is not None for node in fleet.nodes.values()))
    ago = UPTIME - time.clock_gettime(time.CLOCK_BOOTTIME)
    cluster["n1"].kmsg.emit(XID, ago=ago)
    watch(session, lambda _fleet, _now: "gpu.xid.fell_off" in [each.code for each in session.book.incidents])
    pause(session, 5.5)  # more than the clocks of two nodes may differ
    with start_job("later", nodes=BOTH) as run:
        run.until(lambda: run.steps(1))
        run.order(1, "exit")
        run.until(lambda: run.named() == [("rank.exit_error", "n1", 1)])
        found = [(each.job, each.node) for each in session.book.incidents if each.code == "gpu.xid.fell_off"]
        assert found == [(None, "n1")]


@pytest.mark.parametrize("options", [(), ("--nowhere",)], ids=["own files", "no files"])
def test_a_dead_job_s_log_is_of_no_job_that_runs(
    start_job: StartJob, session: Session, options: tuple[str, ...]
) -> None:
    """Both nodes see it, and have ranks that write elsewhere, or nothing."""
    with start_job("lives", *options, nodes=BOTH) as run:
        run.until(lambda: options or run.steps(3))
        pause(session, 2.0)

        def of_the_dead() -> list[tuple[int | None, str | None, int]]:
            found = [each for each in session.book.incidents if each.code == "oom.cuda"]
            return [(each.rank, each.job, len(each.alerts)) for each in found]

        watch(session, lambda _fleet, _now: of_the_dead() == [(1, None, 1)])
        assert run.incidents() == []


def test_a_hang_within_the_first_minute_names_the_rank_by_its_stack(
    start_job: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU, no history: the ranks are asked, and stand at the same lines twice."""
    monkeypatch.setattr(hang_threshold, "PAUSE_WINDOWS", 1000.0)
    monkeypatch.setattr(hang_queries, "AGAIN_S", 1.0)
    with hanging(start_job, HANGS) as run:
        run.until(
            lambda: run.named() == [("job.hang", "n2", 2)] and run.incidents()[0].confidence == "medium"
        )


def test_check_names_the_one_node_that_has_a_low_limit(start_job: StartJob, session: Session) -> None:
    with start_job("limits", nodes=BOTH) as run:
        run.until(lambda: run.steps(3))
        run.order(3, LIMIT)

        def blamed() -> list[tuple[str, tuple[str, ...]]]:
            book = session.book
            checks = checklist(
                session.fleet,
                ask_all(session),
                book.alerts.values(),
                book.incidents,
                session.clock,
            )
            return [(each.status, each.nodes) for each in checks if each.id == "limits.nofile"]

        run.until(lambda: [nodes for status, nodes in blamed() if status != "PASS"] == [("n2",)])


@pytest.mark.long
def test_no_end_of_a_rank_that_saves_is_offered(
    start_job: StartJob, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang_threshold, "PAUSE_WINDOWS", 1.0)
    with hanging(start_job, HANGS.replace("read_shard", "save_checkpoint")) as run:
        run.until(lambda: [each.hang_check for each in run.incidents() if each.hang_check])
        (incident,) = run.incidents()
        commands = [command for _, command in incident.hang_check.do] if incident.hang_check else []
        assert commands
        assert not any("kill" in command.split() for command in commands)
        (culprit, *_) = incident.hang_check.verdict.culprits if incident.hang_check else ()
        target = structs.replace(about_incident(incident), node=None, rank=culprit)
        assert [each.kind for each in possible_actions(target, session.fleet)] == []
        assert possible_actions(structs.replace(target, pausing=()), session.fleet)


@pytest.mark.parametrize(
    ("order", "expected"), [(EVALUATES, SAID), pytest.param(WRITES, "rank2.pt (", marks=pytest.mark.long)]
)
def test_a_rank_that_evaluates_or_saves_inside_of_its_main_is_no_culprit(
    start_job: StartJob, monkeypatch: pytest.MonkeyPatch, order: str, expected: str
) -> None:
    """No name of a function shows it, and it uses hardly any CPU; its last line or its file does."""
    monkeypatch.setattr(hang_threshold, "PAUSE_WINDOWS", 4.0)
    monkeypatch.setattr(hang_queries, "AGAIN_S", 1.0)
    with hanging(start_job, order) as run:
        run.until(lambda: [each.hang_check for each in run.incidents() if each.hang_check])
        (incident,) = run.incidents()
        assert (incident.code, incident.rank, incident.confidence) == ("job.hang", 2, "low")
        assert expected in incident.headline
        check = incident.hang_check
        assert check is not None
        assert check.pausing == (2,)
        assert not any("kill" in command.split() for _, command in check.do)


def test_a_node_that_rebooted_is_named_with_its_ranks(start_job: StartJob, cluster: Cluster) -> None:
    with start_job("boots", nodes=BOTH) as run:
        run.until(lambda: run.steps(3))
        cluster["n2"].reboot()
        run.until(lambda: [(code, node) for code, node, _ in run.named()] == [("node_rebooted", "n2")])
        run.until(lambda: ["ranks 2-3" in each.headline for each in run.incidents()] == [True])


def test_a_rank_in_a_container_of_the_node_is_named(
    cluster: Cluster, session: Session, tmp_path: Path
) -> None:
    """Its log is on a file system of the container, and its pid is another one inside."""
    inside, run = tmp_path / "inside", f"boxed-{os.getpid()}"
    inside.mkdir()
    command = (
        f"mount -t tmpfs none {inside} && mkdir {inside}/ctl && "
        f"exec {sys.executable} {LAUNCHER} {inside} --run-id {run} --inherit --tag > {inside}/train.log 2>&1"
    )
    box = ["unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", command]
    launcher = cluster["n1"].start(box)
    try:
        boxed = Job(run, inside, ("n1",), (launcher,), cluster, session)
        boxed.until(lambda: boxed.pids().keys() == {0, 1} and boxed.steps(1))
        node = session.fleet.nodes["n1"]

        def writers() -> list[list[int]]:
            return [sorted(each.pids) for each in node.logs if each.path.endswith("inside/train.log")]

        boxed.until(lambda: writers() == [sorted(pid for _, pid in boxed.pids().values())])
        boxed.signal(1)
        boxed.until(lambda: boxed.named() == [("rank.killed", "n1", 1)])
    finally:
        end(launcher)


@pytest.mark.long  # two nodes must have seen the file at common offsets
def test_a_file_that_four_ranks_write_on_two_nodes_is_one_file(start_job: StartJob, session: Session) -> None:
    """With 20 writes a second no two nodes see one size of it; its file system is not known as shared."""
    with start_job("shared", nodes=BOTH) as run:
        run.until(lambda: all(run.steps(rank) for rank in range(4)))
        for rank in range(4):
            run.order(rank, SHARED)
        path = str(run.folder / "shared.log")

        def identities() -> list[str | None]:
            return [
                file.identity for name in BOTH for file in session.fleet.nodes[name].logs if file.path == path
            ]

        run.until(lambda: len(identities()) == len(BOTH) and len(set(identities()) - {None}) == 1)
        (run.folder / "ctl" / "rank3.fail").touch()
        run.until(lambda: ("cuda.device_assert", "n2", 3) in run.named())
        asserts = [each for each in run.alerts() if each.code == "cuda.device_assert"]
        assert [each.rank for each in asserts] == [3]
