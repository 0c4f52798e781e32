"""Which ranks a lost node took with it."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.alert import Alert, Proof
from gpuwatch.diagnose.judge import incidents
from gpuwatch.fleet.places import Places, RankPlace
from tests.diagnose.finding import PACK

LOST_AT = 10_000.0


@pytest.mark.parametrize(("until", "named"), [(None, "ranks 2-3"), (LOST_AT - 60.0, "rank 2")])
def test_a_lost_node_lists_no_rank_that_had_ended(until: float | None, named: str) -> None:
    places = Places(
        (
            RankPlace(0, "n1", "7", since=1.0),
            RankPlace(2, "n2", "7", since=1.0),
            RankPlace(3, "n2", "7", since=1.0, until=until),
        )
    )
    lost = Alert(
        id="node_lost@n2",
        code="node_lost",
        severity="critical",
        title="Node lost",
        text="not reachable",
        proof=(Proof("value", "last heard 40 s ago", LOST_AT, node="n2"),),
        node="n2",
        first=LOST_AT,
        last=LOST_AT,
    )
    (incident,) = incidents([lost], places, PACK, LOST_AT)
    assert incident.sentence.startswith(f"n2 with {named} not reachable")
