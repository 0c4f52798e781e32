"""Over a real sshd: the limit of one node in `check`, a reboot, and reports without a history."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.failure_classes import REBOOTED
from gpuwatch.diagnose.preflight.checklist import checklist
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.report.once.first_report import wait_for_first_report
from gpuwatch.session.rank_settings import ask_all
from tests.end_to_end.cluster import watch
from tests.end_to_end.drills.rank_processes import stepping
from tests.end_to_end.drills.ssh_nodes import session_over, ssh_nodes
from tests.end_to_end.hang.hanging import py_spy
from tests.end_to_end.launched import pause
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]

FEW_FILES = 256
FEW_STEPS = 400
"""Bytes of the first steps in a log."""
HANG_S = 3.0
REDIAL_S = 10.0


def eventually(holds: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_check_names_the_one_node_that_has_a_low_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, run = ("n1", "n2", "n3"), f"limit-{os.getpid()}"
    with ssh_nodes(tmp_path, names, monkeypatch) as nodes, ExitStack() as stack:
        for rank, node in enumerate(nodes):
            process = stack.enter_context(stepping(tmp_path / "run", rank, 3, run))
            if node.name == "n2":
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
            node.see(process.pid)
        with session_over(nodes) as session:
            watch(session, lambda _f, _n: sum(p.job == run for p in session.book.places.ranks) == len(names))
            book = session.book
            checks = checklist(
                session.fleet, ask_all(session), book.alerts.values(), book.incidents, session.clock
            )
    (files_check,) = (each for each in checks if each.id == "limits.nofile")
    assert (files_check.status != "PASS", files_check.nodes) == (True, ("n2",))


def test_a_node_that_rebooted_is_dialled_soon_and_named_with_its_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = f"reboot-{os.getpid()}"
    with ssh_nodes(tmp_path, ("n1", "n2"), monkeypatch) as nodes, ExitStack() as stack:
        ranks = [stack.enter_context(stepping(tmp_path / "run", rank, 4, run)) for rank in range(4)]
        for rank, process in enumerate(ranks):
            nodes[rank // 2].see(process.pid)
        with session_over(nodes, thresholds=Thresholds(hold_s=2.0)) as session:
            watch(session, lambda _f, _n: sum(p.job == run for p in session.book.places.ranks) == len(ranks))
            there = nodes[1]
            for process in ranks[2:]:
                process.kill()
                process.wait()
            there.sshd.stop()
            link = session.fleet.nodes["n2"]
            watch(session, lambda _f, _n: link.link.phase != "live")
            there.boot("22222222-0000-4000-8000-000000000002")
            there.sshd.restart()
            back = time.monotonic()
            watch(session, lambda _f, _n: link.link.phase in ("live", "lost"))
            assert link.link.retry_at is None or link.link.retry_at <= back + REDIAL_S
            watch(session, lambda _f, _n: any(each.code == REBOOTED for each in session.book.incidents))
            (incident,) = (each for each in session.book.incidents if each.code == REBOOTED)
            assert (incident.node, incident.job) == ("n2", run)
            assert "ranks 2-3" in incident.headline


def test_a_new_session_names_the_rank_that_the_screen_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a report finds after the end agrees with what the screen saw."""
    run, folder = f"same-{os.getpid()}", tmp_path / "run"
    monkeypatch.setenv("STOP", str(tmp_path / "stop"))
    with ssh_nodes(tmp_path, ("n1",), monkeypatch) as nodes, ExitStack() as stack:
        ranks = [stack.enter_context(stepping(folder, rank, 3, run)) for rank in range(3)]
        nodes[0].see(*(process.pid for process in ranks))
        named = []
        for look in range(2):
            with session_over(nodes, logs=(f"{folder}/*.log",)) as session:
                if look == 0:
                    watch(
                        session,
                        lambda _f, _n: sum(p.job == run for p in session.book.places.ranks) == len(ranks),
                    )
                    (tmp_path / "stop").touch()
                watch(session, lambda _f, _n: any(each.rank == 1 for each in session.book.incidents))
                for process in ranks:
                    process.wait()
                pause(session, 5.0)
                watch(session, lambda _f, _n: not session.book.behind)
                named.append([(each.code, each.rank) for each in session.book.incidents])
    assert named[0] == named[1]
    assert [rank for _, rank in named[0]] == [1]


def test_a_first_report_names_the_rank_of_a_hang_that_began_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No history: the ranks are asked while the report waits, and stand at the same lines."""
    py_spy()
    monkeypatch.setenv("HANG", str(tmp_path / "hang"))
    run = f"late-{os.getpid()}"
    with ssh_nodes(tmp_path, ("n1", "n2"), monkeypatch) as nodes, ExitStack() as stack:
        ranks = [stack.enter_context(stepping(tmp_path / "run", rank, 4, run)) for rank in range(4)]
        for rank, process in enumerate(ranks):
            nodes[rank // 2].see(process.pid)
        logs = [tmp_path / "run" / f"rank{rank}.log" for rank in range(4)]
        eventually(lambda: all(log.exists() and log.stat().st_size > FEW_STEPS for log in logs))
        (tmp_path / "hang").touch()
        eventually(lambda: all(time.time() - log.stat().st_mtime > 2 * HANG_S for log in logs))
        thresholds, files = Thresholds(hang_s=HANG_S), (f"{tmp_path}/run/*.log",)
        with session_over(nodes, thresholds=thresholds, logs=files) as session:
            wait_for_first_report(session, 60.0)
            (incident,) = session.book.incidents
    assert (incident.code, incident.rank, incident.job) == ("job.hang", 2, run)
    assert "read_shard" in incident.headline
