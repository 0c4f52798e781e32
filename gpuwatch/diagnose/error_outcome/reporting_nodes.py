"""Which nodes may report how a rank or job went on: one node's words clear no fault of another one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.jobs.places import RankPlace


class ReportingNodes:
    """The nodes on which processes of each job were seen, and of which ranks.

    A node reports on its own errors and on the ranks that run there. Of a job of which no process was ever
    seen (it ended before the nodes were connected) every node with its logs may report.
    """

    def __init__(self, ranks: Iterable[RankPlace]) -> None:
        self._nodes: dict[str | None, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for place in ranks:
            if place.pid is not None:
                self._nodes[place.job][place.node].add(place.rank)

    def may_report(self, alert: Alert, node: str | None, rank: int | None) -> bool:
        """Whether steps of a rank, or the end of a job (`rank` is None), on a node count for an alert.

        Where the alert's job is not known, a process of any job counts.
        """
        if node is None or node in {alert.node, *(proof.node for proof in alert.proof)}:
            return True
        jobs = [alert.job] if alert.job is not None else list(self._nodes)
        seen = [self._nodes[job] for job in jobs if job in self._nodes]
        if not seen:
            return True
        return any(node in nodes and (rank is None or rank in nodes[node]) for nodes in seen)
