"""Decides which nodes may report how a rank or job went on: no node can clear another node's fault. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, TypeAlias

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.jobs.places import Places

Rank: TypeAlias = tuple[str | None, int]
"""Job and rank."""
Weight: TypeAlias = Literal["none", "warning", "full"]
"""How far another node's report may lower an error: not at all, to a warning, or to `info`."""
OWN_LOG = ("process", "path")
"""Rank sources that mean the rank's own log; a launcher's log holds many ranks."""


class ReportingNodes:
    """Decides which nodes may report on an error: for each job, which nodes listed processes of which ranks.

    A node may report on errors in its own logs. Another node may report on a rank that was restarted there,
    if the two never listed it at the same time. For a job of which no process was ever listed (it ended
    before the nodes were connected) every node with its logs may report.
    """

    def __init__(self, places: Places) -> None:
        self._nodes: dict[str | None, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._homes: dict[Rank, set[str]] = defaultdict(set)
        self._running: dict[str | None, set[str]] = defaultdict(set)
        for place in places.ranks:
            if place.pid is not None:
                self._nodes[place.job][place.node].add(place.rank)
                self._homes[place.job, place.rank].add(place.node)
                if place.until is None:
                    self._running[place.job].add(place.node)
        self._disputed: dict[Rank, set[str]] = defaultdict(set)
        for job, rank, node in places.contested:
            self._disputed[job, rank].add(node)

    def own(self, alert: Alert) -> list[str]:
        """Return the nodes whose own logs raised an alert, sorted; each of them must show the recovery.

        Nodes that list the alert's rank are preferred, because a log elsewhere may hold a copy of the line.
        """
        senders = {proof.node for proof in alert.proof if proof.node is not None}
        if alert.rank is not None:
            listing = {node for key in self._keys(alert, alert.rank) for node in self._listing(key)}
            senders = senders & listing or senders
        return sorted(senders or ({alert.node} if alert.node is not None else set()))

    def weight(self, alert: Alert, node: str | None, rank: int | None) -> Weight:
        """Return how far steps of `rank` on `node` may lower an alert; `rank` None: the end of the job.

        A rank that another node lists after its own node stopped listing it may have restarted there,
        or the other node's claim may be false: a warning remains. If the alert's job is unknown, a
        process of any job counts. If no process is known, the result is `full` for a known job, else `none`.
        """
        if node is None:
            return "full"
        keys = [key for each in (rank, alert.rank) if each is not None for key in self._keys(alert, each)]
        if any(node in self._disputed[key] for key in keys):
            return "none"
        seen = [self._nodes[job] for job in self._jobs(alert) if job in self._nodes]
        if not seen:
            return "full" if alert.job is not None else "none"
        if not any(node in nodes and (rank is None or rank in nodes[node]) for nodes in seen):
            return "none"
        if rank is None or alert.rank_from in OWN_LOG:
            return "none" if rank is None and self._runs_on(alert) else "warning"
        return "full"

    def _runs_on(self, alert: Alert) -> bool:
        """Return True if a node that raised the alert still lists processes of its job."""
        return any(self._running[job] & set(self.own(alert)) for job in self._jobs(alert))

    def _jobs(self, alert: Alert) -> list[str | None]:
        return [alert.job] if alert.job is not None else list(self._nodes)

    def _keys(self, alert: Alert, rank: int) -> Iterator[Rank]:
        return ((job, rank) for job in self._jobs(alert))

    def _listing(self, key: Rank) -> set[str]:
        return self._homes.get(key, set()) | self._disputed.get(key, set())
