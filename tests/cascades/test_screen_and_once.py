"""The screen takes a cascade in line by line, `once` all of it at the end: both name the same rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival, ClockReading, LinkStatus
from gpuwatch.report.once.problems.active import standing
from tests.cascades import test_cascades
from tests.cascades.cluster import EPOCH, Cluster, packs

JUDGED = 12
"""Judgements of the screen during a story."""
STORIES = {
    name: each
    for name, each in vars(test_cascades).items()
    if name.startswith("test_") and list(inspect.signature(each).parameters) in (["job"], ["live"])
}


def fleet_of(cluster: Cluster) -> Fleet:
    """The nodes of a cluster with their ranks."""
    fleet = Fleet(Plan(tuple(NodeSpec(name) for name in cluster.nodes)))
    for name in cluster.nodes:
        own = [place for place in cluster.places.ranks if place.node == name]
        hello = wire.Hello(t=EPOCH, seq=0, host=name, agent="1", python="3", pid=1, interval_s=1.0, gpus=[])
        ranks = [
            wire.Process(
                pid=place.pid or 0, name="python", rank=place.rank, local_rank=place.local_rank,
                job=cluster.job, world_size=cluster.ranks, logs=list(place.logs),
                start=EPOCH - 600.0 + cluster.skews[name],
            )
            for place in own
        ]  # fmt: skip
        clock = ClockReading(cluster.skews[name], 0.01)
        for what in (LinkStatus("live"), clock, hello, wire.Ranks(t=EPOCH, seq=1, processes=ranks)):
            fleet.apply(Arrival(name, 0.0, what))
    return fleet


def streamed(cluster: Cluster, found: Sequence[LocatedFinding], every: int) -> list[tuple[str, int | None]]:
    """Class and rank of the incidents of a book that judges after so many findings, as `once` lists them."""
    fleet, book = fleet_of(cluster), AlertBook(packs(), Thresholds())
    for number, each in enumerate(found):
        fleet.apply(Arrival(each.node or "", 1.0 + number, each.finding))
        if number % every == every - 1:
            _judge(book, fleet, 1.0 + number)
    _judge(book, fleet, 1.0 + len(found))
    stands = standing(book, fleet, 1.0 + len(found), EPOCH + 1000.0)
    return [(incident.code, incident.rank) for incident in stands.incidents]


def _judge(book: AlertBook, fleet: Fleet, now: float) -> None:
    book.judge_now()
    book.update(fleet, now, EPOCH + 1000.0)
    while book.behind:
        now += 0.001
        book.judge_now()
        book.update(fleet, now, EPOCH + 1000.0)


class Both(Cluster):
    """A job of which the screen and `once` tell, before the story itself judges it."""

    def judged(self, extra: Sequence[Alert] = (), backlog: bool = False) -> list[Incident]:
        state = self.chance.getstate()
        found = self.found(backlog=backlog)
        self.chance.setstate(state)
        every = max(3, len(found) // JUDGED)
        screen = streamed(self, sorted(found, key=lambda each: each.finding.at - each.offset_s), every)
        assert screen
        assert screen == streamed(self, found, every=len(found))
        return super().judged(extra, backlog)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_rank_of_the_screen_is_that_of_once(story: Callable[[Cluster], None]) -> None:
    story(Both(16))
