"""Ends of ranks whose status their agents read: named at once, whatever the logs hold."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.alerts.rank_ends import class_of
from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import Watched

RANK, NODE, PID = 9, "gpu-002", 101
JOB_FINISHED = "job.finished"
BUILT_IN = load_packs()


def end(cluster: Watched, status: int, pid: int = PID, node: str = NODE) -> None:
    """The agent of a node saw how a rank ended, and lists it no longer."""
    title = f"rank ended {status}"
    event = wire.Event(t=cluster.t, seq=8, event="rank_ended", title=title, code=status, pid=pid)
    left = [each for each in cluster.fleet.nodes[node].processes if each.pid != pid]
    cluster.report(node, event, wire.Ranks(t=cluster.t, seq=9, processes=left))
    cluster.step(1)


@pytest.mark.parametrize(
    ("status", "code"),
    [(-9, "rank.killed"), (-11, "rank.segfault"), (-7, "rank.bus_error"), (1, "rank.exit_error"),
     (3, "rank.exit_error"), (137, "rank.killed"), (139, "rank.segfault"), (-4, "rank.exit_error")],
)  # fmt: skip
def test_an_end_is_named_at_once_and_stays_named(status: int, code: str) -> None:
    cluster = Watched(packs=BUILT_IN)
    end(cluster, status)
    named = cluster.incident()
    assert (named.code, named.rank, named.node) == (code, RANK, NODE)
    assert named.severity == "critical"
    for _ in range(2):  # afterwards it is not reported as vanished
        cluster.wait()
        named = cluster.incident()
        assert (named.code, named.rank, named.node) == (code, RANK, NODE)
    assert not cluster.states("rank.vanished")


@pytest.mark.parametrize("status", [-15, -2, -1, 130, 143])
def test_who_was_asked_to_end_is_no_incident(status: int) -> None:
    cluster = Watched(packs=BUILT_IN)
    end(cluster, status)
    assert class_of(status) == "rank.terminated"
    assert not cluster.book.incidents


def test_the_one_that_was_killed_leads_over_those_that_its_launcher_ended() -> None:
    cluster = Watched(packs=BUILT_IN)
    end(cluster, -9)
    for pid in (100, 102, 103):
        end(cluster, -15, pid)
    assert (cluster.incident().code, cluster.incident().rank) == ("rank.killed", RANK)


def test_killed_half_a_minute_after_it_was_asked_is_no_incident() -> None:
    cluster = Watched(packs=BUILT_IN)
    end(cluster, -15, 100)
    cluster.step(30)
    end(cluster, -9)
    assert not [each for each in cluster.book.incidents if each.severity in ("error", "critical")]


def test_an_end_after_the_training_finished_is_none() -> None:
    cluster = Watched(packs=BUILT_IN)
    cluster.find(JOB_FINISHED, RANK, NODE)
    cluster.step(2)
    end(cluster, -6)
    assert not [each for each in cluster.book.incidents if each.severity in ("error", "critical")]


def test_an_end_that_comes_before_the_ranks_are_placed_is_kept() -> None:
    cluster = Watched(packs=BUILT_IN)
    processes = cluster.fleet.nodes[NODE].processes
    cluster.report(NODE, wire.Ranks(t=cluster.t, seq=5))
    cluster.step(4)
    started = [structs.replace(each, pid=each.pid + 1000, start=cluster.t) for each in processes]
    cluster.step(1)
    event = wire.Event(t=cluster.t, seq=8, event="rank_ended", title="x", code=-9, pid=PID + 1000)
    cluster.report(NODE, wire.Ranks(t=cluster.t, seq=6, processes=started), event)
    cluster.step(4)
    killed = [each for each in cluster.book.incidents if each.code == "rank.killed"]
    assert [(each.rank, each.node) for each in killed] == [(RANK, NODE)]


def test_a_node_states_no_end_of_another_ones_rank() -> None:
    cluster = Watched(packs=BUILT_IN)
    event = wire.Event(t=cluster.t, seq=8, event="rank_ended", title="x", code=-9, pid=4711)
    cluster.report("gpu-001", event)
    cluster.step(4)
    assert not cluster.book.incidents


@pytest.mark.parametrize("finished", [False, True])
def test_a_rank_that_reported_its_end_did_not_vanish(*, finished: bool) -> None:
    """Early stopping: the announced last step was not reached, and another rank does not come to its end."""
    cluster = Watched(packs=BUILT_IN)
    if finished:
        cluster.find("job.finished", RANK, NODE, job="4711")
    left = [each for each in cluster.fleet.nodes[NODE].processes if each.rank != RANK]
    cluster.report(NODE, wire.Ranks(t=cluster.t, seq=9, processes=left))
    cluster.wait()
    cluster.wait()
    assert cluster.states("rank.vanished") == ([] if finished else ["firing"])


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_helper_with_the_environment_of_a_rank_did_not_vanish(*, goes_on: bool) -> None:
    """A program that sets its rank itself starts a helper; the training steps on after the helper's end."""
    cluster = Watched(packs=BUILT_IN)
    left = [each for each in cluster.fleet.nodes[NODE].processes if each.rank != RANK]
    cluster.report(NODE, wire.Ranks(t=cluster.t, seq=9, processes=left))
    for step in range(30):
        cluster.step(2)
        for name in cluster.names:
            cluster.report(
                name, wire.Ranks(t=cluster.t, seq=9, processes=cluster.fleet.nodes[name].processes)
            )
        if goes_on:
            reported = wire.Progress(
                t=cluster.t, seq=4, file="/logs/rank_8.log", rank=8, offset=10 * step, at=cluster.t,
                timed=True, dialect="x", fields={"step": step}, job="4711",
            )  # fmt: skip
            cluster.report(NODE, reported)
    assert cluster.states("rank.vanished") == ([] if goes_on else ["firing"])
