"""One fault in a matrix of links, and who is named for it."""

from __future__ import annotations

import pytest

from gpuwatch.probe.judging.judge import judge, suspects
from tests.probe.judging.fabric import Fabric, both_ways, into, one_way, out_of, through
from tests.sentences import Sentences


def verdict_of(fabric: Fabric) -> tuple[str, list[tuple[str, str]]]:
    """Status and culprits."""
    verdict = judge(fabric.results())
    return verdict.status, [(culprit.kind, culprit.name) for culprit in verdict.culprits]


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, 16])
def test_one_slow_node(nodes: int) -> None:
    fabric = Fabric(nodes, jitter=0.05).slow(through("host-2"))

    assert verdict_of(fabric) == ("bad", [("node", "host-2")])


def test_half_of_the_links_bad_is_one_node_of_four(sentences: Sentences) -> None:
    """A median of this matrix is a bad link's rate, and its deviation from the median flags nothing."""
    fabric = Fabric(4).slow(through("host-1"), to=0.25)
    verdict = judge(fabric.results())

    assert sum(pair.bandwidth_gb_per_s == 6.0 for pair in fabric.pairs.values()) == 6
    assert [culprit.name for culprit in verdict.culprits] == ["host-1"]
    assert verdict.culprits[0].ratio == 0.25
    sentences(verdict.sentence)
    sentences(verdict.culprits[0].evidence[0])


@pytest.mark.parametrize("nodes", [2, 4, 8, 128])
def test_healthy_links_are_alike(nodes: int) -> None:
    assert verdict_of(Fabric(nodes, jitter=0.06)) == ("ok", [])


def test_a_quiet_fabric_flags_nothing(sentences: Sentences) -> None:
    """Links that differ by a thousandth: a deviation from the median would be many times the usual one."""
    fabric = Fabric(8, rate=0.0239, jitter=0.001).slow(one_way("host-1", "host-4"), to=0.985)
    verdict = judge(fabric.results())

    assert (verdict.status, verdict.culprits) == ("ok", ())
    sentences(verdict.sentence)
    assert suspects(fabric.results()) == []


@pytest.mark.parametrize(
    ("which", "name"), [(out_of("host-3"), "host-3 egress"), (into("host-3"), "host-3 ingress")]
)
@pytest.mark.parametrize("nodes", [4, 8])
def test_one_slow_direction(nodes: int, which: object, name: str, sentences: Sentences) -> None:
    fabric = Fabric(nodes, jitter=0.05).slow(which)  # type: ignore[arg-type]

    assert verdict_of(fabric) == ("bad", [("direction", name)])
    sentences(judge(fabric.results()).sentence)


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_one_slow_directed_link(nodes: int) -> None:
    fabric = Fabric(nodes, jitter=0.05).slow(one_way("host-1", "host-0"))

    assert verdict_of(fabric) == ("bad", [("link", "host-1 -> host-0")])
    assert suspects(fabric.results()) == [(1, 0)]


def test_of_two_ranks_one_direction_is_compared_with_the_other(sentences: Sentences) -> None:
    sentences(judge(Fabric(2).slow(one_way("host-1", "host-0")).results()).sentence)


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_one_dead_pair(nodes: int, sentences: Sentences) -> None:
    fabric = Fabric(nodes, jitter=0.05).dead(both_ways("host-1", "host-0"))
    verdict = judge(fabric.results())

    assert verdict_of(fabric) == ("bad", [("link", "host-0 <-> host-1")])
    assert verdict.culprits[0].ratio is None
    sentences(verdict.sentence)
