"""Lengthens the interval between samples while this process cannot keep up with all nodes.

Example: 1,000 nodes at 1 s take 0.7 of a core. All agents are asked for a sample every 2 s, which takes 0.4.
When it took less than 0.25 of a core for a minute, they are asked for one a second again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node

CHECK_S = 10.0
"""Seconds over which the CPU time of this process is measured."""
BUSY, QUIET = 0.6, 0.25
"""Share of a core above which the interval is doubled, and below which it is halved: half of `BUSY` and less,
so that the next check does not double it again."""
QUIET_CHECKS = 6
MAX_FACTOR = 8
MAX_INTERVAL_S = 10.0
ASKED_AT_ONCE = 32
"""Most agents that one call asks for another interval; each request takes some 0.1 ms to encrypt and send."""
LEAST_NODES = 32
"""Least number of nodes for a longer interval; with fewer, the samples are not what takes the time."""


class SamplingPace:
    """Sets the interval of all agents by the CPU time of this process."""

    def __init__(
        self,
        fleet: Fleet,
        set_interval: Callable[[str, float], bool],
        cpu_s: Callable[[], float] = time.process_time,
        least_nodes: int = LEAST_NODES,
    ) -> None:
        """Create the control of the interval; it has measured nothing yet.

        Args:
            fleet: Its `interval_s` is the interval that was set last.
            set_interval: Asks a node's agent for an interval (seconds).
            cpu_s: The CPU time of this process so far (seconds).
            least_nodes: With fewer nodes the interval stays.
        """
        self._fleet = fleet
        self._set_interval = set_interval
        self._cpu_s = cpu_s
        self._least_nodes = least_nodes
        self._checked: tuple[float, float] | None = None
        """Time and CPU time at the last check."""
        self._quiet = 0
        """Checks in a row that found little CPU time."""
        self._unasked: list[str] = []
        """Nodes that get the interval with the next calls."""

    def update(self, now: float) -> None:
        """Measure the CPU time every 10 s and change the interval; call this with each poll.

        `now`: monotonic. Does nothing for few nodes (`least_nodes`) and for the demo.
        """
        nodes = self._fleet.plan.nodes
        if len(nodes) < self._least_nodes or nodes[0].link == "demo":
            return
        if self._checked is None or now - self._checked[0] >= CHECK_S:
            before, self._checked = self._checked, (now, self._cpu_s())
            if before is not None:
                self._judge((self._checked[1] - before[1]) / (now - before[0]))
                self._unasked = [node.name for node in self._deviating()]
        due, self._unasked = self._unasked[:ASKED_AT_ONCE], self._unasked[ASKED_AT_ONCE:]
        for name in due:
            self._set_interval(name, self._fleet.interval_s)

    def _judge(self, share: float) -> None:
        """Double the interval of a busy session; halve it again after QUIET_CHECKS quiet checks.

        `share`: share of a core that this process used since the last check.
        """
        fleet, asked_s = self._fleet, self._fleet.plan.interval_s
        self._quiet = self._quiet + 1 if share < QUIET else 0
        if share > BUSY:
            longest = max(asked_s, min(MAX_FACTOR * asked_s, MAX_INTERVAL_S))
            fleet.interval_s = min(2 * fleet.interval_s, longest)
        elif self._quiet >= QUIET_CHECKS and fleet.interval_s > asked_s:
            fleet.interval_s, self._quiet = max(asked_s, fleet.interval_s / 2), 0

    def _deviating(self) -> Iterator[Node]:
        """Yield the nodes whose agents use another interval, such as those just started."""
        for node in self._fleet.nodes.values():
            if node.hello is not None and node.interval_s != self._fleet.interval_s:
                yield node
