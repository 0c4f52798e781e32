"""What a list of processes or log files costs the fleet grows with its length, whatever it claims."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.health.conditions import node_conditions
from gpuwatch.fleet.jobs.rank_claims import MAX_CLAIMS
from gpuwatch.hosts.plan import Thresholds
from tests.counted_calls import calls_of
from tests.fleet.jobs.two_jobs import WALL, Several

LINEAR = 6.0
"""Of four times as much; 16 is the square."""
CALLS_OF_A_RANK = 2000
"""Of each that three nodes list three times; where all are compared with each other it is 10,000."""
CLAIMS: dict[str, Any] = {
    "unnamed": {},
    "named": {"job": "4711"},
    "one launcher": {"job": "4711", "launcher": 5},
    "masters": {"job": "4711", "master": lambda i: f"h{i}:{29500 + i % 100}"},
    "loopback": {"job": "4711", "master": lambda i: f"127.0.0.1:{29500 + i}"},
    "worlds": {"world_size": lambda i: (1, 8, 1024)[i % 3]},
    "jobs": {"job": lambda i: str(i % 7)},
    "folders": {"launcher": 5, "logs": lambda i: [f"/runs/{i}/out.log"]},
    "new launchers": {"job": "4711", "launcher": lambda i: i, "renewed": True},
}


def claimed(kind: str, count: int, ranks: int, time: int) -> list[wire.Process]:
    facts = {"launcher": lambda i: i + 1, "logs": lambda i: [f"/runs/{i % 50}/x.log"], **CLAIMS[kind]}
    renewed = facts.pop("renewed", False)

    def process(i: int) -> wire.Process:
        own = {key: value(i) if callable(value) else value for key, value in facts.items()}
        own["launcher"] += 10_000 * time if renewed else 0
        return wire.Process(i + 1, "p", rank=i % ranks, start=WALL + i + time, **own)

    return [process(i) for i in range(count)]


def cost_of_lists(kind: str, count: int, ranks: int) -> int:
    cluster = Several(3)
    lists = [
        (f"n{node}", wire.Ranks(t=WALL, seq=1, processes=claimed(kind, count, ranks, time)), float(time))
        for time in range(1, 4)
        for node in range(1, 4)
    ]

    def report() -> None:
        for node, listed, at in lists:
            cluster.report(node, listed, at=at)

    return calls_of(report)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("kind", CLAIMS)
def test_repeated_ranks_cost_no_more_than_their_number(kind: str, ranks: int) -> None:
    assert cost_of_lists(kind, 400, ranks) < CALLS_OF_A_RANK * 400 * 9


@pytest.mark.parametrize("found", [True, False])
def test_log_files_of_many_folders_cost_no_more_than_their_number(found: bool) -> None:
    def cost(count: int) -> int:
        cluster = Several(1)
        cluster.run("n1", *claimed("folders", 200, 200, 1))
        ended: dict[str, Any] = {"source": "found", "last_at": WALL} if found else {"source": "glob"}
        paths = [
            f"/runs/a/none_{i:08d}/attempt_0/0/x.log" if i % 2 else f"/runs/{i}.log" for i in range(count)
        ]
        files = [wire.LogFile(path, size=1, searched_to=1, **ended) for path in paths]
        return calls_of(lambda: cluster.list_files("n1", *files))

    assert cost(1600) < LINEAR * cost(400)


def test_a_rank_claimed_too_often_is_stated_and_the_first_claims_are_distinguished() -> None:
    cluster = Several(2)
    cluster.run("n1", *claimed("masters", MAX_CLAIMS + 9, 1, 1))
    names = list(cluster.jobs("n1").values())
    assert len(set(names[:MAX_CLAIMS])) == MAX_CLAIMS
    node = cluster.fleet.nodes["n1"]
    assert node.crowded_ranks == {0: MAX_CLAIMS + 9}
    codes = [each.code for each in node_conditions(node, Thresholds(), 1.0)]
    assert "ranks_crowded" in codes
    cluster.run("n1", *claimed("masters", MAX_CLAIMS, 1, 2), at=2.0)
    assert node.crowded_ranks == {}


def test_every_rank_of_1024_has_its_own_place() -> None:
    cluster = Several(128)
    for time in (1.0, 2.0):
        for node in range(128):
            ranks = [
                wire.Process(
                    rank + 1,
                    "p",
                    rank=node * 8 + rank,
                    job="4711",
                    master="n1:29500",
                    launcher=7,
                    world_size=1024,
                )
                for rank in range(8)
            ]
            cluster.run(f"n{node + 1}", *ranks, at=time)
    processes = [each for node in cluster.fleet.nodes.values() for each in node.processes]
    assert sorted(each.rank or 0 for each in processes) == list(range(1024))
    assert {each.job for each in processes} == {"4711"}
    assert not any(node.rivals or node.crowded_ranks for node in cluster.fleet.nodes.values())
