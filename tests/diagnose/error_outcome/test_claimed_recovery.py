"""A node that lists another node's rank states that the rank went on: the rank's own log is believed."""

from __future__ import annotations

from itertools import count

import pytest

from gpuwatch import wire
from gpuwatch.wire.progress import Odd
from tests.diagnose.incidents.alert_cluster import Watched, idle

LIAR, VICTIM, RANK = "gpu-003", "gpu-002", 9


def claim(cluster: Watched, ranks: list[int], *, pid: int = 700) -> None:
    """The liar lists ranks of the job as its own, as started a moment ago."""
    listed = [
        wire.Process(pid + rank, "python", rank=rank, job="4711", world_size=16, start=cluster.t)
        for rank in ranks
    ]
    cluster.report(LIAR, wire.Ranks(t=cluster.t, seq=7, processes=listed))


def steps(cluster: Watched, node: str, numbers: count[int]) -> None:
    """Rank 9 logs steps, by the words of a node."""
    fields: dict[str, float | Odd] = {"step": next(numbers), "total_steps": 100}
    progress = wire.Progress(
        t=cluster.t, seq=8, file=f"/{node}/rank_9.log", offset=int(cluster.t) % 100_000, at=cluster.t,
        timed=True, dialect="x", fields=fields, rank=RANK, rank_from="process", job="4711",
    )  # fmt: skip
    cluster.report(node, progress)


def later(cluster: Watched, node: str, claimed: list[int], turns: int = 12) -> None:
    numbers = count(50)
    for _ in range(turns):
        if claimed:
            claim(cluster, claimed)
        steps(cluster, node, numbers)
        cluster.step(2)


@pytest.mark.parametrize("claimed", [[RANK], list(range(16))])
@pytest.mark.parametrize("dies", [False, True])
def test_a_node_that_lists_anothers_rank_clears_no_error_of_it(claimed: list[int], *, dies: bool) -> None:
    """Also after the process has ended on its own node: the liar listed it beside that node."""
    cluster = Watched()
    idle(cluster, LIAR)
    claim(cluster, claimed)
    cluster.step(3)
    cluster.find("oom.cuda", RANK, VICTIM, rank_from="process", job="4711")
    if dies:
        left = [each for each in cluster.fleet.nodes[VICTIM].processes if each.rank != RANK]
        cluster.report(VICTIM, wire.Ranks(t=cluster.t, seq=6, processes=left))
    later(cluster, LIAR, claimed)
    alert = cluster.alert("oom.cuda")
    assert (alert.severity, alert.state) == ("error", "firing")
    assert not cluster.incident().over


def test_the_ranks_own_node_clears_it_whoever_claims_the_rank() -> None:
    cluster = Watched()
    idle(cluster, LIAR)
    claim(cluster, [RANK])
    cluster.step(3)
    cluster.find("oom.cuda", RANK, VICTIM, rank_from="process", job="4711")
    later(cluster, VICTIM, [RANK])
    assert cluster.alert("oom.cuda").severity == "info"


def test_a_job_that_was_started_anew_on_another_node_closes_its_incident() -> None:
    """An elastic restart: the old node lists its ranks no more, and the job steps on the new one."""
    cluster = Watched()
    idle(cluster, LIAR)
    cluster.find("oom.cuda", RANK, VICTIM, rank_from="process", job="4711")
    cluster.step(3)
    assert not cluster.incident().over
    for name in ("gpu-001", VICTIM):
        cluster.report(name, wire.Ranks(t=cluster.t, seq=6, processes=[]))
    cluster.step(12)
    claim(cluster, list(range(16)))
    cluster.step(3)
    alive = cluster.fleet.nodes[LIAR].processes
    numbers = count(50)
    for _ in range(12):
        cluster.report(LIAR, wire.Ranks(t=cluster.t, seq=8, processes=alive))
        steps(cluster, LIAR, numbers)
        cluster.step(2)
    assert not [each for each in cluster.book.incidents if not each.over]
