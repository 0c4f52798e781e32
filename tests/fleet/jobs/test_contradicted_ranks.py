"""Ranks of a job that one node claims and that the lists of the job's other nodes contradict."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.link.stream.inbox import LinkStatus
from tests.fleet.jobs.two_jobs import Several, rank

JOB = {"job": "4711", "logs": []}
LIAR = "n3"


class Claimed(Several):
    """n1 and n2 run ranks 0 to 7 of job 4711; n3 lists what a test makes it list."""

    def __init__(self) -> None:
        super().__init__(3)
        self.lists: dict[str, list[wire.Process]] = {
            "n1": [rank(each, 100 + each, 8, **JOB) for each in range(4)],
            "n2": [rank(each, 200 + each, 8, **JOB) for each in range(4, 8)],
            LIAR: [],
        }
        self.places: Places | None = None

    def claim(self, *ranks: int, world: int = 8, **more: Any) -> None:
        self.lists[LIAR] = [rank(each, 300 + each, world, **{**JOB, **more}) for each in ranks]

    def list_all(self, times: int = 3) -> None:
        for _ in range(times):
            for name, listed in self.lists.items():
                self.run(name, *listed)
            self.places = places_of(list(self.fleet.nodes.values()), self.places, 1_750_000_900.0)

    @property
    def where(self) -> RankIndex:
        assert self.places is not None
        return RankIndex(self.places)

    def names(self, node: str) -> set[str | None]:
        return set(self.jobs(node).values())


@pytest.mark.parametrize(
    ("ranks", "world"),
    [([5], 8), ([0, 5], 8), (range(8), 8), ([5, 8, 9, 10, 11, 12], 8), ([5, 20, 21, 22, 23, 24], 100),
     ([0], 1), (range(64), 64), ([30], 1_000_000)],
)  # fmt: skip
def test_a_node_that_the_others_contradict_is_not_of_their_job(ranks: list[int], world: int) -> None:
    cluster = Claimed()
    cluster.list_all()
    cluster.claim(*ranks, world=world)
    cluster.list_all()
    assert cluster.names("n1") | cluster.names("n2") == {"4711"}
    assert cluster.names(LIAR) == {"4711@n3"}
    assert cluster.where.size("4711") == 8
    assert {place.node for place in cluster.where.ranks("4711")} == {"n1", "n2"}
    assert bool(cluster.fleet.nodes[LIAR].rivals) == bool(set(ranks) & set(range(8)))


def test_ranks_that_no_other_node_contradicts_are_of_the_job() -> None:
    cluster = Claimed()
    for name in ("n1", "n2"):
        cluster.lists[name] = [rank(each.rank or 0, each.pid, 12, **JOB) for each in cluster.lists[name]]
    cluster.claim(8, 9, 10, 11, world=12)
    cluster.list_all()
    assert cluster.names(LIAR) == {"4711"}


def test_a_restart_that_moves_ranks_and_changes_the_world_size_contradicts_nobody() -> None:
    cluster = Claimed()
    cluster.claim(8, 9, 10, 11, world=12)
    for name in ("n1", "n2"):
        cluster.lists[name] = [rank(each.rank or 0, each.pid, 12, **JOB) for each in cluster.lists[name]]
    cluster.list_all()
    moved = {"n3": range(4), "n1": range(4, 8)}
    for name, ranks in moved.items():
        cluster.lists[name] = [rank(each, 900 + each, 8, **JOB) for each in ranks]
        cluster.run(name, *cluster.lists[name])
        assert cluster.names("n1") | cluster.names("n2") | cluster.names(LIAR) == {"4711"}
    cluster.lists["n2"] = []
    cluster.list_all()
    assert cluster.names("n1") | cluster.names(LIAR) == {"4711"}


@pytest.mark.parametrize("first", [True, False])
def test_a_rank_does_not_move_to_a_node_that_listed_it_beside_its_own(*, first: bool) -> None:
    cluster = Claimed()
    if first:
        cluster.claim(5)
    cluster.list_all()
    cluster.claim(5)
    cluster.list_all()
    cluster.lists["n2"] = [each for each in cluster.lists["n2"] if each.rank != 5]
    cluster.list_all()
    place = cluster.where.of(5, "4711")
    assert place is not None
    assert (place.node, place.until) == ("n2", 1_750_000_900.0)


def test_a_node_that_is_gone_disputes_no_rank() -> None:
    cluster = Claimed()
    cluster.claim(4, 5, 6, 7)
    cluster.list_all()
    assert cluster.where.of(5, "4711") is None
    cluster.report(LIAR, LinkStatus("lost", "gone"))
    place = RankIndex(places_of(list(cluster.fleet.nodes.values()))).of(5, "4711")
    assert place is not None
    assert place.node == "n2"


def test_more_ranks_that_nobody_watches_do_not_make_a_nodes_word_the_only_one() -> None:
    """Of a job of 64 ranks n3 claims rank 5 and others that no watched node runs."""
    cluster = Claimed()
    for name in ("n1", "n2"):
        cluster.lists[name] = [rank(each.rank or 0, each.pid, 64, **JOB) for each in cluster.lists[name]]
    cluster.claim(5, 60, 61, 62, 63, world=64)
    cluster.list_all()
    assert cluster.names("n2") == {"4711"}
    assert cluster.where.claimants.of(5, "4711") == {"n2", LIAR}
