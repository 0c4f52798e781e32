"""The whole chain over real TCP: a fault in the network, and a verdict that names it and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gpuwatch.probe.verdict import ProbeVerdict
from tests.netlab.lab import BAD_MBIT, GOOD_MBIT, Lab, lab
from tests.netlab.probing import PAIRS_ONLY, WISH, probe
from tests.parts import need_torch

SLOW = BAD_MBIT / GOOD_MBIT
HOSTS = 4


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


def verdict_of(fault: Callable[[Lab], None], collectives: bool = False) -> ProbeVerdict:
    """What a probe of a lab with this fault says; afterwards nothing runs in the lab any more."""
    with lab(HOSTS) as made:
        fault(made)
        results = probe(made, WISH if collectives else PAIRS_ONLY)
        deadline = time.monotonic() + 60
        while made.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert made.processes() == []
    assert results.phase == "done", results.reason
    assert results.verdict is not None
    return results.verdict


def named(verdict: ProbeVerdict) -> list[tuple[str, str]]:
    """Kind and name of every culprit."""
    return [(each.kind, each.name) for each in verdict.culprits]


@pytest.mark.long
def test_a_healthy_network() -> None:
    verdict = verdict_of(lambda _: None, collectives=True)

    assert (verdict.status, named(verdict)) == ("ok", [])


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "culprit", "collectives"),
    [
        (lambda made: made.slow_node(2), ("node", "host-2"), True),
        (lambda made: made.slow_egress(1), ("direction", "host-1 egress"), False),
        (lambda made: made.slow_link(1, 3), ("link", "host-1 -> host-3"), False),
    ],
    ids=["node", "direction", "directed link"],
)
def test_one_is_slow(fault: Callable[[Lab], None], culprit: tuple[str, str], collectives: bool) -> None:
    verdict = verdict_of(fault, collectives)

    assert (verdict.status, named(verdict)) == ("bad", [culprit])
    assert verdict.culprits[0].ratio == pytest.approx(SLOW, rel=0.15)


@pytest.mark.long
def test_one_dead_pair() -> None:
    verdict = verdict_of(lambda made: made.cut(0, 2))

    assert (verdict.status, named(verdict)) == ("bad", [("link", "host-0 <-> host-2")])
    assert verdict.culprits[0].ratio is None
    assert "no answer" in verdict.sentence
