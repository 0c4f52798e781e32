"""Who is named does not depend on what nodes are called, nor on the order in which links were measured."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.verdict import ProbeVerdict
from tests.probe.judging.fabric import Fabric, both_ways, into, one_way, out_of, through

NODES = 6
RATES = st.sampled_from((24.0, 23.5, 19.0, 12.0, 6.0, None))


def facts(verdict: ProbeVerdict, names: dict[str, str]) -> tuple[str, set[tuple[str | float | None, ...]]]:
    """Status and culprits, with every name replaced and the two ends of a link in one order."""
    found: set[tuple[str | float | None, ...]] = set()
    for each in verdict.culprits:
        words = [names.get(word, word) for word in each.name.split()]
        if "<->" in words:
            words = sorted(words)
        found.add((each.kind, *words, each.ratio, len(each.evidence)))
    return verdict.status, found


@settings(max_examples=150, deadline=None)
@given(
    rates=st.lists(RATES, min_size=NODES * NODES, max_size=NODES * NODES),
    order=st.permutations(range(NODES)),
)
def test_renaming_nodes_renames_the_verdict(rates: list[float | None], order: list[int]) -> None:
    plain = Fabric(NODES)
    renamed = Fabric([f"host-{number}" for number in order])
    for src in range(NODES):
        for dst in range(NODES):
            if src != dst:
                rate = rates[src * NODES + dst]
                pair = replace(plain.pairs[src, dst], ok=rate is not None, bandwidth_gb_per_s=rate)
                plain.pairs[src, dst] = renamed.pairs[src, dst] = pair
    names = {f"host-{number}": f"host-{order[number]}" for number in range(NODES)}
    one, other = judge(plain.results()), judge(renamed.results())

    if not any("host-[" in each.name for each in one.culprits):  # groups are named as folded ranges
        assert facts(one, names) == facts(other, {})


@settings(max_examples=50, deadline=None)
@given(rates=st.lists(RATES, min_size=20, max_size=20), order=st.permutations(range(20)))
def test_the_order_of_measuring_does_not_matter(rates: list[float | None], order: list[int]) -> None:
    fabric = Fabric(5)
    for pair, rate in zip(list(fabric.pairs), rates, strict=True):
        fabric.pairs[pair] = replace(fabric.pairs[pair], ok=rate is not None, bandwidth_gb_per_s=rate)
    one = judge(fabric.results())
    pairs = list(fabric.pairs.items())
    fabric.pairs = dict(pairs[at] for at in order)

    assert facts(judge(fabric.results()), {}) == facts(one, {})


@settings(max_examples=100, deadline=None)
@given(
    nodes=st.integers(3, 10),
    jitter=st.floats(0.0, 0.1),
    to=st.floats(0.05, 0.6),
    fault=st.sampled_from(
        ("node", "host-1 egress", "host-1 ingress", "host-1 -> host-2", "host-1 <-> host-2")
    ),
)
def test_one_fault_is_named_and_nothing_else(nodes: int, jitter: float, to: float, fault: str) -> None:
    which = {
        "node": through("host-1"),
        "host-1 egress": out_of("host-1"),
        "host-1 ingress": into("host-1"),
        "host-1 -> host-2": one_way("host-1", "host-2"),
        "host-1 <-> host-2": both_ways("host-1", "host-2"),
    }[fault]
    verdict = judge(Fabric(nodes, jitter=jitter).slow(which, to=to).results())

    assert [each.name for each in verdict.culprits] == ["host-1" if fault == "node" else fault]
