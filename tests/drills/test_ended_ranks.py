"""Ranks that end: which one, how that is known, and what is no reason."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from gpuwatch.fleet.logs.log_coverage import unlogged
from gpuwatch.own_folders import state_folder
from gpuwatch.session import Session
from tests.agent.logs.scan_lines import rule
from tests.drills.jobs import TAGGED, StartJob, end, job
from tests.drills.namespaces import Cluster
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

BOTH = ("n1", "n2")
START_LINES = """print
[W1127 12:10:43.1 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to [n1]:29500
[W1127 12:10:43.1 socket.cpp:462] [c10d] The hostname of the client socket cannot be retrieved. err=-3
/opt/multiprocessing/resource_tracker.py:224: UserWarning: There appear to be 1 leaked semaphores"""
FOLLOWS = """do
import os, sys, time
print("[rank%s]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81]"
    " Timed out waiting 1000ms for recv operation to complete" % os.environ["RANK"], flush=True)
print("Fatal Python error: Aborted", flush=True)
os.abort()"""

REVOKED = """do
print("[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", flush=True)
print("[rank2]: memguard: share revoked", flush=True)
sys.exit(17)"""


def test_a_killed_rank_is_named_by_the_output_of_its_launcher(start_job: StartJob) -> None:
    """The ranks have files of their own, which say nothing."""
    with start_job("killed", nodes=BOTH) as run:
        run.until(lambda: run.steps(3))
        run.signal(3)
        run.until(
            lambda: run.named() == [("rank.killed", "n2", 3)] and run.incidents()[0].confidence != "low"
        )


def test_ranks_without_a_log_are_reported_as_such(cluster: Cluster, tmp_path: Path) -> None:
    with (
        cluster.session() as session,
        job(cluster, session, tmp_path / "job", "mute", "--nowhere", nodes=BOTH, quiet=True) as run,
    ):

        def mute() -> dict[str | None, tuple[int, ...]]:
            return {each.job: tuple(each.ranks) for each in unlogged(session.fleet.nodes.values())}

        run.until(lambda: mute().get(run.name) == (0, 1, 2, 3))


def test_a_sites_own_rule_names_the_cause_of_an_end(cluster: Cluster, tmp_path: Path) -> None:
    """It states that it explains the built-in class of the line before it."""
    pack = tmp_path / "site.yaml"
    pack.write_text(rule("memguard: share revoked", name="site.revoked", extra="explains: oom.cuda"))
    with (
        cluster.session(rules=(str(pack),)) as session,
        job(cluster, session, tmp_path / "job", "own", *TAGGED, nodes=BOTH) as run,
    ):
        run.until(lambda: run.steps(2))
        run.order(2, REVOKED)
        run.until(lambda: run.named() == [("site.revoked", "n2", 2)])


def test_warnings_of_a_start_are_no_reason(start_job: StartJob) -> None:
    with start_job("starts", *TAGGED) as run:
        run.order(0, START_LINES)
        run.until(lambda: run.steps(0) and run.steps(1))
        assert [(each.code, each.severity) for each in run.alerts() if each.severity != "info"] == []
        before = time.time()
        run.order(1, "exit")
        run.until(lambda: run.named() == [("rank.exit_error", "n1", 1)])
        assert run.incidents()[0].first >= before - 1.0


def test_the_incident_of_an_attempt_closes_when_the_next_one_steps(start_job: StartJob) -> None:
    with start_job("again", "--max-restarts", "2") as run:
        run.until(lambda: run.steps(1))
        for rank in (0, 1):
            run.order(rank, "load")  # the next attempt makes no step yet: it would be a remark, no incident
        run.signal(1)
        run.until(lambda: run.named() == [("rank.killed", "n1", 1)])
        for rank in (0, 1):
            (run.folder / "ctl" / f"rank{rank}").unlink()
        run.until(lambda: ["steps again" in (each.closed or "") for each in run.incidents()] == [True])
        assert run.incidents()[0].over
        grave = ("error", "critical")
        run.until(lambda: not [e for e in run.alerts() if e.state == "firing" and e.severity in grave])


def test_a_hang_ends_with_the_last_rank_of_its_job(start_job: StartJob) -> None:
    with start_job("stuck", "--stay") as run:
        run.until(lambda: run.steps(0) and run.steps(1))
        run.order(0, "hang")
        run.signal(1, signal.SIGSTOP)
        run.until(lambda: [(code, rank) for code, _, rank in run.named()] == [("job.hang", 1)])
        end(run.launchers[0])
        run.until(lambda: [each.over for each in run.incidents() if each.code == "job.hang"] == [True])


PREFIXES = "[rank3]: ", "[1,3]<stderr>:", "(RayTrainWorker pid=77, ip=n2) [rank3]: "
RAISED = (
    "Traceback (most recent call last):",
    '  File "/opt/train.py", line 9, in <module>',
    "KeyError: 'mask'",
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_rank_that_a_launcher_puts_before_a_line_is_that_of_the_job(
    start_job: StartJob, tmp_path: Path, prefix: str
) -> None:
    """Rank 3 has the local rank 1; all end alike, and only the launcher's file has the cause."""
    tagged = "".join(f"print({prefix + line!r}, flush=True)\n" for line in RAISED)
    gone = tmp_path / "gone"
    with start_job("prefix", "--inherit", "--stay", nodes=BOTH) as run:
        run.until(lambda: run.writers("n2") == [2, 3])
        for rank in (0, 1, 2):
            waits = f"while not os.path.exists({str(gone)!r}):\n    time.sleep(0.02)"
            run.order(rank, f"do\n{waits}\nsys.exit(1)")
        run.order(3, f"do\n{tagged}open({str(gone)!r}, 'w').close()\ntime.sleep(0.5)\nsys.exit(1)")
        run.until(lambda: sum(each.code == "rank.exit_error" for each in run.alerts()) == 4)
        run.until(lambda: [(node, rank) for _, node, rank in run.named()] == [("n2", 3)])


def test_the_ranks_that_waited_do_not_lead(start_job: StartJob) -> None:
    """Rank 2 is silent; the others time out and abort."""
    with start_job("silent", "--stay", nodes=BOTH) as run:
        run.until(lambda: all(run.steps(rank) for rank in range(4)))
        run.order(2, "do\nline('reading shard 17')\ntime.sleep(3600)")
        run.until(lambda: "shard" in (run.folder / "attempt_0/2/stdout.log").read_text())
        for rank in (3, 1, 0):
            run.order(rank, FOLLOWS)
        run.until(lambda: [(node, rank) for _, node, rank in run.named()] == [("n2", 2)])
        run.until(lambda: "reading shard 17" in str(run.incidents()))


def test_a_later_session_names_the_same_rank(
    start_job: StartJob, cluster: Cluster, session: Session, tmp_path: Path
) -> None:
    """A specific word beside a generic one; followers that fail within the same second."""
    error = "ValueError: weights do not match: CUDA error: an illegal memory access was encountered"
    with start_job("same", "--stay", nodes=BOTH) as run:
        run.until(lambda: all(run.steps(rank) for rank in range(4)))
        run.order(1, f"do\nprint({error!r}, flush=True)\nsys.exit(1)")
        for rank in (0, 2, 3):
            run.order(rank, "do\nraise ConnectionError('Connection closed by peer')")
        run.until(lambda: run.named() == [("cuda.illegal_access", "n1", 1)])
        kept = state_folder() / "failed_jobs.json"
        run.until(lambda: kept.exists() and run.name in kept.read_text())
        earlier = {each.job for each in session.book.incidents} - {run.name, None}
        with cluster.session(logs=(f"{tmp_path}/job/attempt_0/*/stdout.log",)) as later:
            run.session = later

            def named() -> list[tuple[str, int | None]]:
                found = [each for each in later.book.incidents if each.job not in earlier]
                return [(each.code, each.rank) for each in found]

            run.until(lambda: named() == [("cuda.illegal_access", 1)])
