"""Which node's ranks were gone first, where a job ended as a whole and no line states why."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.missing_ranks.end_order import ListedRank, first_gone
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import Role
from tests.diagnose.finding import PACK
from tests.diagnose.hang.live_ranks import member, running
from tests.fleet.jobs.two_jobs import WALL, Several

PEERS: tuple[int, ...] = (0, 1)
LOST = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:2345"


def ranks_of(node: str) -> list[wire.Process]:
    local: dict[str, Any] = {"variables": {"LOCAL_WORLD_SIZE": "2"}}
    first = 0 if node == "n1" else 2
    return [member(first + each, local_rank=each, **local) for each in (0, 1)]


def ended(
    *,
    n1: float = 75.0,
    n2: float = 70.0,
    lost: tuple[int, ...] = PEERS,
    total: int | None = None,
    **more: Any,
) -> tuple[AlertBook, Several]:
    """A job of two nodes, seen from second 60; the ranks of each node are not listed from n1, n2 on."""
    reported, book = Several(2), AlertBook(PACK, Thresholds())
    for at in range(60, 111):
        for node, until in (("n1", n1), ("n2", n2)):
            if at % 5 == 0:
                running(reported, node, *(ranks_of(node) if at < until else []), at=float(at))
        if at == 71:
            for rank in lost:
                facts: dict[str, Any] = {"role": "echo", "rank": rank, "job": "4711", "lines": [LOST], **more}
                node = "n1" if rank < 2 else "n2"
                reported.find(node, f"/runs/1/rank_{rank}.log", "peer.connection_lost", at=70.0, **facts)
            if total is not None:
                fields: dict[str, Any] = {"step": 50, "total_steps": total}
                step = wire.Progress(
                    t=WALL, seq=4, file="/runs/1/rank_0.log", offset=0, at=WALL, dialect="progress.common",
                    fields=fields, rank=0, job="4711",
                )  # fmt: skip
                reported.report("n1", step, at=71.0)
        book.update(reported.fleet, float(at), WALL + at)
    return book, reported


def named(book: AlertBook) -> list[tuple[str, str | None, int | None, str]]:
    return [(each.code, each.node, each.rank, each.confidence) for each in book.incidents]


def test_the_node_whose_ranks_were_gone_first_is_named() -> None:
    book, reported = ended(n1=80.0)
    assert named(book) == [("rank.vanished", "n2", None, "medium")]
    (incident,) = book.incidents
    assert incident.cause is not None
    assert incident.cause.fields["ranks"] == "2 3"
    book.acknowledge(incident.id)
    for at in (120.0, 130.0):
        book.update(reported.fleet, at, WALL + at)
    assert book.incidents[0].acknowledged


@pytest.mark.parametrize(
    "how",
    [
        {"n1": 70.0},  # all gone in the same lists
        {"n1": 80.0, "total": 50},  # the announced last step
        {"n1": 80.0, "lost": (0, 1, 2, 3)},  # the ranks that were gone first had lost their peers, too
    ],
)
def test_the_order_is_no_evidence_where_it_does_not_show_who_failed(how: dict[str, Any]) -> None:
    book, _ = ended(**how)
    assert "rank.vanished" not in [code for code, *_ in named(book)]


@pytest.mark.parametrize(("lost", "level"), [((0, 1), "medium"), ((0, 1, 2), "low")])
def test_a_node_that_all_others_lost_is_named_though_the_lists_give_no_order(
    lost: tuple[int, ...], level: str
) -> None:
    """The node's ranks logged no lost peer: a broken link is logged on both sides."""
    peers: dict[str, Any] = {"lines": [LOST.replace("10.0.0.2", "n2")], "fields": {"peer": "n2"}}
    book, _ = ended(n1=70.0, lost=lost, **peers)
    assert [(node, confidence) for _, node, _, confidence in named(book)] == [("n2", level)]


def test_a_job_that_ends_without_an_error_is_no_incident() -> None:
    book, _ = ended(n1=80.0, lost=())
    assert named(book) == []


@pytest.mark.parametrize(("rule", "role"), [("nccl.watchdog_timeout", "echo"), ("oom.cuda", "root")])
def test_a_line_that_states_more_is_believed(rule: str, role: Role) -> None:
    book, reported = ended(n1=80.0)
    reported.find("n1", "/runs/1/rank_0.log", rule, at=69.0, role=role, rank=0, job="4711")
    for at in (112.0, 114.0, 118.0):
        book.update(reported.fleet, at, WALL + at)
    assert "rank.vanished" not in [code for code, *_ in named(book)]


def ranks(*times: tuple[str, float, float]) -> list[ListedRank]:
    return [ListedRank(n, node, 100 + n, listed, gone) for n, (node, listed, gone) in enumerate(times)]


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        (ranks(("a", 10, 15), ("b", 20, 25)), [0]),
        (ranks(("a", 10, 15), ("b", 14, 19)), []),  # the lists overlap
        (ranks(("a", 10, 15), ("b", 10, 15), ("c", 20, 25)), []),  # two nodes at once
        (ranks(("a", 20, 25), ("b", 10, 15), ("b", 12, 17)), [1, 2]),
        (ranks(("a", 10, 15)), []),
    ],
)
def test_only_lists_that_do_not_overlap_give_an_order(seen: list[ListedRank], first: list[int]) -> None:
    assert [each.rank for each in first_gone(seen)] == first
