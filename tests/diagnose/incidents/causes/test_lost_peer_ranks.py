"""Ranks that write to their launcher's log without a number, and end because another one did."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import UNKNOWN, Incident
from gpuwatch.fleet.jobs.places import Places, RankPlace
from tests.diagnose.finding import PACK
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank

LOG = "/runs/9/train.log"
CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.4]:42824"


def job(ranks: int = 2, nodes: int = 1) -> Watched:
    """Ranks on one node, whose tracebacks go to one file."""
    reported = Watched(nodes)
    each = [rank(number, 900 + number, ranks, start=WALL - 90) for number in range(ranks)]
    reported.run("n1", *each)
    reported.list_files(
        "n1",
        wire.LogFile(LOG, pids=[900]),
        *(wire.LogFile(one.logs[0], pids=[one.pid]) for one in each),
    )
    reported.look(2.0)
    return reported


def ended(reported: Watched, number: int, status: int, at: float) -> None:
    """The agent sees the end of a rank's process."""
    event: dict[str, Any] = {"event": "rank_ended", "severity": "info", "title": "ended", "code": status}
    reported.report("n1", wire.Event(t=WALL + at, seq=9, source="kernel", pid=900 + number, **event), at=at)


def lost(reported: Watched, at: float, count: int = 1) -> None:
    for _ in range(count):
        reported.find("n1", LOG, "peer.connection_lost", at, role="echo", lines=[CLOSED])


def table(reported: Watched, number: int, status: int, at: float, entry: int = 0) -> None:
    """A row of torchrun's table of failures."""
    fields = {"exitcode": status, "pid": 900 + number, "local_rank": number, "table_entry": entry}
    code, role = ("rank.terminated", "echo") if status == -15 else ("rank.exit_error", "first")
    severity = "info" if status == -15 else "critical"
    reported.find(
        "n1", LOG, code, at, rank=number, rank_from="field", role=role, severity=severity, fields=fields,
        lines=[f"  exitcode  : {status} (pid: {900 + number})"],
    )  # fmt: skip


def judged(reported: Watched) -> Incident:
    for second in range(4):
        reported.look(106.0 + 5 * second)
    (incident,) = reported.book.incidents
    return incident


def test_a_rank_that_lost_its_peer_is_not_named_for_a_rank_ended_by_sigterm() -> None:
    reported = job()
    ended(reported, 1, -15, 99.8)
    lost(reported, 100.0)
    ended(reported, 0, 1, 100.1)
    table(reported, 0, 1, 100.2)
    table(reported, 1, -15, 100.2, 1)
    incident = judged(reported)
    assert (incident.rank, incident.node, incident.code) == (1, "n1", "rank.terminated")


def test_a_rank_ended_by_sigterm_without_a_launcher() -> None:
    """The launcher was killed before: nobody writes a table."""
    reported = job()
    ended(reported, 1, -15, 99.8)
    lost(reported, 100.0)
    ended(reported, 0, 1, 100.1)
    assert judged(reported).rank == 1


def test_a_launcher_that_ends_the_others_makes_no_culprit_of_them() -> None:
    reported = job()
    lost(reported, 100.0)
    table(reported, 0, 1, 100.2)
    reported.find("n1", LOG, "launch.siblings_killed", 100.1, role="echo", severity="info")
    table(reported, 1, -15, 100.2, 1)
    assert judged(reported).code != "rank.terminated"


def test_a_rank_that_exited_without_an_error_is_the_likely_one() -> None:
    """Rank 1 returned with exit code 0: no line is about it, and rank 0 only lost its connection."""
    reported = job()
    lost(reported, 100.0)
    ended(reported, 0, 1, 100.1)
    table(reported, 0, 1, 100.2)
    incident = judged(reported)
    assert (incident.rank, incident.confidence) == (1, "low")


def test_all_ranks_of_the_node_lost_a_peer_elsewhere() -> None:
    """Local rank numbers of two nodes: the table of the node that followed names its first rank."""
    reported = job()
    lost(reported, 100.0, 2)
    table(reported, 0, 1, 100.2)
    table(reported, 1, 1, 100.2, 1)
    assert judged(reported).rank is None


@pytest.mark.parametrize(("peer", "named"), [("n2", None), ("n1", 0)])
def test_a_lost_peer_on_another_node_was_lost_by_all_ranks(peer: str, named: int | None) -> None:
    """The other node was switched off; of two equal tracebacks one is read so far."""
    reported = job(nodes=2)
    reported.find(
        "n1", LOG, "peer.connection_lost", 100.0, role="echo", lines=[CLOSED], fields={"peer": peer}
    )
    ended(reported, 0, 1, 100.1)
    ended(reported, 1, 1, 100.2)
    assert judged(reported).rank == named


def test_the_cause_is_of_the_rank_that_ended_first() -> None:
    """Two tracebacks without a rank in one file, one a cause, one a lost connection."""
    reported = job()
    reported.find("n1", LOG, "storage.full", 99.7, lines=["OSError: [Errno 28] No space left on device"])
    ended(reported, 1, 1, 99.9)
    lost(reported, 100.0)
    ended(reported, 0, 1, 100.1)
    table(reported, 1, 1, 100.2)
    table(reported, 0, 1, 100.2, 1)
    incident = judged(reported)
    assert (incident.code, incident.rank) == ("storage.full", 1)


@pytest.mark.parametrize(("apart_s", "named"), [(0.01, None), (3.0, 0)])
def test_of_ranks_that_are_killed_in_one_moment_none_is_first(apart_s: float, named: int | None) -> None:
    reported = job()
    ended(reported, 0, -9, 99.8)
    ended(reported, 1, -9, 99.8 + apart_s)
    incident = judged(reported)
    assert (incident.code, incident.rank, incident.node) == ("rank.killed", named, "n1")
    assert ("0-1" in incident.headline) == (named is None)


def test_a_job_that_stopped_without_a_reason_names_the_node_that_its_lines_name() -> None:
    """No log of the node that failed is found; the others' launchers log that they lost it."""
    line = Proof("line", CLOSED, WALL, node="n1", file=LOG, offset=10)
    echo = Alert("p", "peer.connection_lost", "error", "lost", "lost", (line,), role="echo", node="n1")
    lost = structs.replace(echo, first=WALL, last=WALL, job="trio", fields={"peer": "10.0.0.3"})
    stopped = structs.replace(
        lost, id="u", code=UNKNOWN, role="root", text="117", node=None, fields={"settle": "x"}
    )
    follower = structs.replace(lost, id="q", node="n2", fields={"peer": "10.0.0.1"})
    addresses = {"10.0.0.3": "n3", "10.0.0.1": "n1"}
    places = Places((RankPlace(0, "n1", "trio"), RankPlace(1, "n2", "trio")), addresses)
    (incident,) = incidents([stopped, lost, follower], places, PACK, WALL)
    assert (incident.node, incident.rank, incident.confidence) == ("n3", None, "low")
    assert "117" in incident.headline
    assert "n3" in incident.headline


def test_torchruns_first_observed_failure_is_no_order_where_both_were_dead() -> None:
    """Rank 1 raised; both ranks are dead before torchrun looks, and it lists rank 0 first."""
    reported = job()
    reported.find(
        "n1", LOG, "data.loader_crash", 100.0, role="first", lines=["DataLoader worker (pid(s) 3041) exited"]
    )
    lost(reported, 100.0)
    ended(reported, 0, 1, 99.4)
    ended(reported, 1, 1, 99.4)
    table(reported, 0, 1, 100.2)
    table(reported, 1, 1, 100.2, 1)
    incident = judged(reported)
    assert (incident.code, incident.rank) == ("data.loader_crash", None)


@pytest.mark.parametrize(("signalled", "beside"), [((0,), None), ((0, 1), None), ((0,), "other")])
def test_the_rank_that_its_launcher_did_not_signal_ended_first(
    signalled: tuple[int, ...], beside: str | None
) -> None:
    """Both ranks end by SIGTERM; torchrun logs to which process it sent the signal.

    A failure of another job on the node is no cause of theirs.
    """
    reported = job()
    if beside is not None:
        reported.find("n1", "/runs/8/train.log", "oom.cuda", 60.0, role="root", job=beside, rank=0)
    ended(reported, 1, -15, 99.8)
    for number in signalled:
        sent: dict[str, Any] = {"role": "echo", "severity": "info", "fields": {"pid": 900 + number}}
        reported.find("n1", LOG, "launch.siblings_killed", 99.9, **sent)
    ended(reported, 0, -15, 100.1)
    reported.find("n1", LOG, "rank.error_unexplained", 100.2, role="first", severity="warning")
    table(reported, 1, -15, 100.2)
    for second in range(4):
        reported.look(106.0 + 5 * second)
    named = [(each.code, each.rank) for each in reported.book.incidents if each.code != "oom.cuda"]
    assert named == ([("rank.terminated", 1)] if signalled == (0,) else [])


@pytest.mark.parametrize(("nodes", "named"), [(("n1", "n2"), "n1"), (("n1", "n2", "n3"), None)])
def test_a_launcher_that_lost_the_store_is_not_at_fault(nodes: tuple[str, ...], named: str | None) -> None:
    """The launcher of n1, which hosts the store, was killed; n2's ends rank 1, which rank 0 then loses."""
    line = Proof("line", "The connection to the C10d store has failed", WALL, node="n2", file=LOG, offset=10)
    lost = Alert("s", "elastic.rdzv_connection", "critical", "lost", "lost", (line,), role="first", node="n2")
    store = structs.replace(lost, first=WALL, last=WALL, timed=True, job="kl")
    closed = Proof("line", CLOSED, WALL, node="n1", file=LOG, offset=10)
    peer = structs.replace(
        store, id="p", code="peer.connection_lost", role="echo", node="n1", proof=(closed,),
        severity="error", fields={"peer": "10.0.0.2"}, first=WALL + 1, last=WALL + 1,
    )  # fmt: skip
    places = Places(tuple(RankPlace(n, each, "kl") for n, each in enumerate(nodes)), {"10.0.0.2": "n2"})
    (incident,) = incidents([store, peer], places, PACK, WALL + 2)
    assert (incident.code, incident.node, incident.rank) == ("elastic.rdzv_connection", named, None)
