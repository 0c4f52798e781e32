"""Who is waited for before the ranks are ready, how long, and who is named."""

from __future__ import annotations

from gpuwatch.probe.orchestration.nodes.arrivals import IMPORT_S, MARGIN_S, Arrivals
from gpuwatch.probe.results import RankSlot
from tests.sentences import Sentences

SLOTS = [RankSlot(rank, f"gpu-{rank // 2}", rank % 2) for rank in range(4)]


def test_a_slow_import_is_waited_for_and_reported_as_such() -> None:
    arrivals = Arrivals(SLOTS, 100.0, 30.0)
    for rank in (0, 1):
        arrivals.arrived(rank, 105.0)
    assert arrivals.until == 100.0 + IMPORT_S + 30.0
    slow = "did not join within 150 s: gpu-1 still imports torch"
    disk = f"{slow} and waits for its disk or network file system"
    assert arrivals.late(250.0, {"gpu-1": "D"}) == ([2, 3], disk)
    assert arrivals.late(250.0, {"gpu-1": "R"}) == ([2, 3], slow)


def test_once_every_node_has_imported_a_rank_that_does_not_come_is_given_up_soon(
    sentences: Sentences,
) -> None:
    arrivals = Arrivals(SLOTS, 100.0, 30.0)
    for rank, now in ((0, 103.0), (1, 103.0), (3, 110.0)):
        arrivals.arrived(rank, now)
    assert arrivals.until == 110.0 + 30.0 + MARGIN_S
    sentences(arrivals.late(145.0, {}))


def test_when_all_have_come_those_that_do_not_join_are_named(sentences: Sentences) -> None:
    arrivals = Arrivals(SLOTS, 0.0, 30.0)
    for rank in range(4):
        arrivals.arrived(rank, 5.0)
    for rank in (0, 1, 3):
        arrivals.joined(rank)
    assert arrivals.waiting == {2}
    assert arrivals.until > 5.0 + 2 * 30.0  # a group that cannot be built takes its time to say so
    sentences(arrivals.late(125.0, {}))
