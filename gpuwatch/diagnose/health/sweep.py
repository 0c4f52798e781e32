"""Periodic health checks of a fleet's nodes: which are due, and which conditions hold."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from gpuwatch.diagnose.alerts.held_conditions import HeldConditions, eased
from gpuwatch.diagnose.health.conditions import gpu_conditions, node_conditions
from gpuwatch.diagnose.health.counter_growth import Growth
from gpuwatch.diagnose.health.idle_gpus import idle_conditions
from gpuwatch.diagnose.health.peer_comparison import peer_conditions
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node, NodeState
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import GpuSlow

ROUND_S = 1.0
"""Seconds for one sweep over a small fleet; proportionally longer for a large one."""
NODES_A_SECOND = 256
SEVERAL, TOGETHER_S = 3, 30.0
"""A network fault: at least SEVERAL nodes, and over half of all, are lost within TOGETHER_S seconds."""


class HealthSweep:
    """Checks the nodes in turn, at a bounded rate, and only those of which something may have changed."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds, self._eased = thresholds, eased(thresholds)
        self.holding = HeldConditions(thresholds)
        self._cursor = 0.0
        self._at: float | None = None
        self._seen: dict[str, tuple[int, NodeState]] = {}
        self._troubled: set[str] = set()
        self._slow: dict[str, tuple[GpuSlow, list[Condition]]] = {}

    def going(self, fleet: Fleet, now: float, wall: float) -> Steps[bool]:
        """Check the nodes that are due since the last call; yield before each.

        Return True if an alert fired, changed or ended. `wall`: unix seconds.
        """
        nodes = list(fleet.nodes.values())
        for node in self._due(nodes, now):
            state = node.state(now)
            mark = (node.version, state)
            if self._seen.get(node.name) == mark and node.name not in self._troubled:
                continue
            yield
            self._seen[node.name] = mark
            found = list(self._conditions(node, now))
            (self._troubled.add if found else self._troubled.discard)(node.name)
            self.holding.see(node.name, found, now, wall)
        return self.holding.turn(now, wall)

    def alerts(self, nodes: int) -> list[Alert]:
        """Return all alerts of a fleet of `nodes` nodes.

        If most of the nodes were lost at once, none of these losses can be the cause of an incident.
        """
        alerts = list(self.holding.alerts.values())
        lost = sorted(
            (a for a in alerts if a.code == "node_lost" and a.state == "firing"), key=lambda a: a.first
        )
        if len(lost) < SEVERAL or len(lost) * 2 <= nodes or lost[-1].first - lost[0].first > TOGETHER_S:
            return alerts
        ids = {alert.id for alert in lost}
        return [structs.replace(a, role="hint") if a.id in ids else a for a in alerts]

    def _due(self, nodes: list[Node], now: float) -> Iterator[Node]:
        if not nodes:
            return
        elapsed = ROUND_S if self._at is None else max(0.0, now - self._at)
        self._at = now
        pace = max(ROUND_S, len(nodes) / NODES_A_SECOND)
        count = min(float(len(nodes)), elapsed / pace * len(nodes))
        first, self._cursor = int(self._cursor), self._cursor + count
        for index in range(first, int(self._cursor)):
            yield nodes[index % len(nodes)]
        self._cursor %= len(nodes)

    def _conditions(self, node: Node, now: float) -> Iterator[Condition]:
        found = list(self._with(node, self._thresholds, now))
        yield from found
        firing = self.holding.firing(node.name)
        if firing:
            known = {(each.code, each.gpu, each.evidence.what) for each in found}
            for each in self._with(node, self._eased, now):
                if each.code in firing and (each.code, each.gpu, each.evidence.what) not in known:
                    yield each

    def _with(self, node: Node, thresholds: Thresholds, now: float) -> Iterator[Condition]:
        yield from node_conditions(node, thresholds, now)
        if node.state(now) == "lost":
            return
        for gpu in node.gpus.values():
            yield from gpu_conditions(gpu, node, thresholds, now)
            if gpu.slow is not None and gpu.slow.t:
                yield from self._grown(node, gpu.info.uuid)
        yield from peer_conditions(node, thresholds, now)
        yield from idle_conditions(node, now)

    def _grown(self, node: Node, uuid: str) -> list[Condition]:
        """Return the conditions from the growth of a GPU's counters between its last two readings.

        Empty before the second reading.
        """
        gpu = node.gpus[uuid]
        slow = gpu.slow
        if slow is None:
            return []
        before = self._slow.get(uuid)
        if before is not None and before[0] is slow:
            return before[1]
        grown = [] if before is None else list(Growth(before[0], slow).conditions(gpu, self._thresholds))
        self._slow[uuid] = (slow, grown)
        return grown
