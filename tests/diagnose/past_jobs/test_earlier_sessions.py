"""The job of an earlier session takes the name under which its logs are found."""

from __future__ import annotations

from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob, EarlierJobsWatch
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, Several, rank

LOG = "/srv/shared/sa/logs/rank3.log"


def test_it_has_the_name_of_its_log_as_soon_as_that_is_listed() -> None:
    ended = Alert(
        id="rank_ended:7@n1", code="rank.killed", severity="critical", title="killed", text="killed",
        proof=(Proof("event", "pid 7 ended by signal 9", WALL, node="n1"),), node="n1", rank=3,
        job="10.0.0.1:29700", first=WALL, last=WALL,
    )  # fmt: skip
    earlier = EarlierJob("10.0.0.1:29700", ("n1",), ("u",), WALL, (ended,), logs=(LOG,))
    watch = EarlierJobsWatch([earlier])
    reported = Several()
    assert watch.go(reported.fleet, (), 1.0, WALL + 1.0)
    assert {alert.job for alert in watch.alerts.values()} == {"10.0.0.1:29700"}
    reported.list_files("n1", wire.LogFile(LOG, source="found", last_at=WALL, ranks=[3]))
    assert watch.go(reported.fleet, (), 1.1, WALL + 1.1)
    assert {alert.job for alert in watch.alerts.values()} == {"sa/logs"}


def test_a_line_that_states_only_a_pid_has_the_rank_that_the_earlier_session_knew() -> None:
    """The worker's process was listed then; now its rank is gone, too."""
    file, line = "/runs/9/train.log", "DataLoader worker (pid(s) 977) exited unexpectedly"

    def watched(*ranks: wire.Process) -> Watched:
        reported = Watched()
        reported.run("n1", *ranks)
        reported.look(2.0)
        reported.find("n1", file, "data.loader_crash", 100.0, lines=[line], fields={"pid": 977})
        reported.look(101.0)
        return reported

    parent = structs.replace(rank(1, 901, 2, start=WALL - 90), children=[977])
    (then,) = watched(rank(0, 900, 2, start=WALL - 90), parent).book.alerts.values()
    assert then.rank == 1
    later = watched()
    assert [alert.rank for alert in later.book.alerts.values()] == [None]
    later.book.take_earlier([EarlierJob("gone", ("n1",), ("u",), WALL, (then,))])
    later.look(103.0)
    assert [alert.rank for alert in later.book.alerts.values()] == [1]


def test_a_line_that_other_nodes_see_now_has_the_rank_and_node_that_the_earlier_session_knew() -> None:
    proof = Proof("line", "KeyError: 'mask'", WALL, node="n1", file="/runs/9/0/stderr.log", offset=40)
    then = Alert(
        id="python.exception:1@n1", code="python.exception", severity="error", title="raised", text="raised",
        proof=(proof,), node="n1", rank=3, rank_from="process", job="9", first=WALL, last=WALL,
    )  # fmt: skip
    watch = EarlierJobsWatch([EarlierJob("9", ("n1",), ("u",), WALL, (then,))])
    new = structs.replace(then, id="python.exception:1@n2", node=None, rank=None, rank_from=None)
    other = structs.replace(new, proof=(structs.replace(proof, offset=90),))
    places = [(alert.node, alert.rank) for alert in watch.completed([new, other])]
    assert places == [("n1", 3), (None, None)]
