"""Which ranks a lost node took with it."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.wire import Ranks
from tests.diagnose.finding import PACK
from tests.diagnose.incidents.alert_cluster import Cluster
from tests.report.fleets import NODE_TIME, START, feed, healthy_fleet, hello
from tests.sentences import Sentences

LOST_AT = 10_000.0


@pytest.mark.parametrize(("until", "ranks"), [(None, "2-3"), (LOST_AT - 60.0, "2")])
def test_a_lost_node_lists_no_rank_that_had_ended(
    until: float | None, ranks: str, sentences: Sentences
) -> None:
    places = Places(
        (
            RankPlace(0, "n1", "7", since=1.0),
            RankPlace(2, "n2", "7", since=1.0),
            RankPlace(3, "n2", "7", since=1.0, until=until),
        )
    )
    lost = Alert(
        id="node_lost@n2",
        code="node_lost",
        severity="critical",
        title="Node lost",
        text="not reachable",
        proof=(Proof("value", "last heard 40 s ago", LOST_AT, node="n2"),),
        node="n2",
        first=LOST_AT,
        last=LOST_AT,
    )
    (incident,) = incidents([lost], places, PACK, LOST_AT)
    assert re.findall(r"ranks? ([-\d,]+)", incident.headline) == [ranks]
    sentences(incident.headline)


@pytest.mark.parametrize("away_s", [90.0, 600.0])
def test_a_node_with_another_boot_id_has_rebooted_with_its_ranks(away_s: float, sentences: Sentences) -> None:
    """It is dated when the node was last heard, however long the boot takes: its ranks ended then."""
    fleet = healthy_fleet("n2")
    book = AlertBook(PACK, Thresholds())
    feed(fleet, "n2", hello(2, boot_id="first"))
    feed(fleet, "n2", hello(2, boot_id="first"))
    book.update(fleet, START, NODE_TIME)
    feed(
        fleet,
        "n2",
        hello(2, boot_id="second", t=NODE_TIME + away_s, booted_at=NODE_TIME + away_s - 30.0),
        at=START + away_s,
    )
    feed(fleet, "n2", Ranks(t=NODE_TIME + away_s, seq=9), at=START + away_s)
    for second in range(0, 10, 3):
        book.update(fleet, START + away_s + second, NODE_TIME + away_s + second)
    reported = [(one.code, one.node, one.first) for one in book.incidents if one.code == "node_rebooted"]
    assert reported == [("node_rebooted", "n2", NODE_TIME)]
    (incident,) = (one for one in book.incidents if one.code == "node_rebooted")
    sentences(incident.headline)


@pytest.mark.parametrize("steps", [True, False])
def test_a_lost_node_that_answers_again_is_over_once_its_job_steps(
    *, steps: bool, sentences: Sentences
) -> None:
    cluster = Cluster(2)
    ranks = [
        structs.replace(each, start=cluster.t - 900) for each in cluster.fleet.nodes["gpu-001"].processes
    ]
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=2, processes=ranks))
    cluster.find("peer.connection_lost", 3)
    cluster.report("gpu-002", LinkStatus("lost", "no route to host"))
    cluster.step(30, silent="gpu-002")
    (incident,) = cluster.book.incidents
    assert (incident.code, incident.node, incident.over) == ("node_lost", "gpu-002", False)
    cluster.greet(1, "gpu-002")
    for step in range(3 if steps else 0):
        reported = wire.Progress(
            t=cluster.t, seq=9 + step, file="/logs/rank_3.log", rank=3, job="4711", offset=90 + step,
            at=cluster.t, dialect="x", timed=True, fields={"step": 40.0 + step},
        )  # fmt: skip
        cluster.report("gpu-001", reported)
        cluster.step(1)
    cluster.step(40)
    (incident,) = cluster.book.incidents
    assert (incident.over, incident.cause and incident.cause.state) == (steps, "resolved")
    sentences(incident.headline)
