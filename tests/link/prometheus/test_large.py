"""A thousand nodes of eight GPUs: what it takes until all of them are there."""

from __future__ import annotations

import pytest

from tests.link.prometheus.start_cost import NODES, start_cost

MOST_CPU_S = 2.0
"""Of this process; how long it takes on a machine that is busy with other tests says little."""


@pytest.mark.long
def test_a_thousand_nodes_cost_less_than_two_seconds() -> None:
    cost = start_cost()
    assert cost.gpus == 8 * NODES
    assert cost.cpu_s <= MOST_CPU_S
