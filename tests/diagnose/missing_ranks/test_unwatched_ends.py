"""Jobs whose ranks ended while the link to their node was down."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.missing_ranks.unwatched_ends import CODE
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.rules.model.failure_class import FailureClass
from tests.diagnose.hang.live_ranks import member, running
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL


def outage(after: dict[str, Any], *found: dict[str, Any], nodes: int = 1, flaps: bool = False) -> Watched:
    """Ranks 0 and 1 are listed, the link is down from 62 to 90 s, and `after` (node -> ranks) are left.

    `flaps`: it is down from 30 to 58 s, too.
    """
    reported = Watched(nodes)
    reported.fleet.stated_classes = {"site.done": FailureClass(("finished",))}
    ranks = [member(number, 2, variables={}) for number in range(2)]
    if flaps:
        running(reported, "n1", *ranks, at=20.0)
        reported.report("n1", LinkStatus("lost", "no route to host"), at=30.0)
        for second in range(30, 58):
            reported.look(float(second))
        reported.report("n1", LinkStatus("live"), at=58.0)
    running(reported, "n1", *ranks, at=60.0)
    for node in list(reported.fleet.nodes)[1:]:
        running(reported, node, at=60.0)
    reported.look(61.0)
    reported.report("n1", LinkStatus("lost", "no route to host"), at=62.0)
    for second in range(64, 90):
        reported.look(float(second))
    reported.report("n1", LinkStatus("live"), at=90.0)
    for each in found:
        reported.find("n1", "/logs/0.log", **each)
    for node in reported.fleet.nodes:
        running(reported, node, *after.get(node, ()), at=91.0)
        reported.report(node, wire.Logs(t=WALL, seq=9, files=[], complete=True), at=91.0)
    for second in range(91, 110):
        for node in reported.fleet.nodes:
            running(reported, node, *after.get(node, ()), at=float(second))
        reported.look(float(second))
    return reported


def told(reported: Watched) -> list[tuple[str | None, str | None, str]]:
    return [(each.job, each.node, each.state) for each in reported.book.alerts.values() if each.code == CODE]


def test_ranks_gone_after_an_outage_are_reported_once_with_both_times() -> None:
    reported = outage({})
    assert told(reported) == [("4711", "n1", "firing")]
    (incident,) = reported.book.incidents
    assert (incident.code, incident.rank, incident.first, incident.last) == (CODE, None, WALL + 60, WALL + 91)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"n1": [member(0, 2, variables={})]}, []),
        ({"n1": [member(each, 2, variables={}, start=WALL + 88) for each in range(2)]}, []),
        ({}, [{"rule": "job.finished", "severity": "info", "at": 70.0, "job": "4711"}]),
        ({}, [{"rule": "site.done", "severity": "info", "at": 70.0, "job": "4711"}]),
        ({}, [{"rule": "oom.cuda", "at": 70.0, "job": "4711"}]),
    ],
    ids=[
        "a sibling lives",
        "it runs again",
        "it finished",
        "a site's own rule says so",
        "its log has the error",
    ],
)
def test_known_ends_are_not_reported_again(after: dict[str, Any], found: list[dict[str, Any]]) -> None:
    assert told(outage(after, *found)) == []


def test_ranks_that_ended_lead_over_the_outages_of_their_node() -> None:
    """The alert of the node's loss began with the first outage."""
    reported = outage({}, flaps=True)
    (lost,) = [each for each in reported.book.alerts.values() if each.code == "node_lost"]
    assert lost.first < WALL + 60
    (incident,) = reported.book.incidents
    assert (incident.code, incident.node, incident.rank) == (CODE, "n1", None)
