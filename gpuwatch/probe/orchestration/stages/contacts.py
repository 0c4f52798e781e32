"""Records which nodes can reach each other, so that a dead connection is not waited for again."""

from __future__ import annotations

from collections import Counter

from gpuwatch.probe.orchestration.planning.schedule import Pair
from gpuwatch.probe.orchestration.stages.run import ProbeRun

DEAD_PEERS = 3
"""A rank that failed to reach this many ranks on other nodes, and none succeeded, is not waited for again."""


class Contacts:
    """Records which nodes can reach each other, from the first contact of each pair of ranks."""

    def __init__(self, run: ProbeRun) -> None:
        self._run = run
        self._met: set[frozenset[str]] = set()
        """Pairs of nodes that have exchanged data."""
        self._alive: set[int] = set()
        """Ranks that have exchanged data with another node."""
        self._failures: Counter[int] = Counter()
        """Rank -> number of ranks of other nodes that it could not reach."""

    def error(self, pair: Pair) -> str | None:
        """Return why a pair cannot work; None if it may."""
        run = self._run
        for rank in pair:
            if rank in run.stuck:
                return f"not measured: {run.stuck[rank]}"
        here, there = run.nodes_of(pair)
        for nodes in ((here, there), (there, here)):
            if nodes in run.dead:
                return run.dead[nodes]
        for rank in pair if here != there else ():
            if self._failures[rank] >= DEAD_PEERS and rank not in self._alive:
                return f"not measured: {run.name(rank)} reached none of {self._failures[rank]} others"
        return None

    def worked(self, pair: Pair) -> None:
        """Record that these two have exchanged data."""
        one, other = self._run.nodes_of(pair)
        if one != other:
            self._met.add(frozenset((one, other)))
            self._alive.update(pair)

    def failed(self, pair: Pair, error: str) -> None:
        """Record that this pair could not connect.

        The connection of its two nodes counts as dead unless other ranks of them could. Nothing within one
        node.
        """
        one, other = self._run.nodes_of(pair)
        if one != other:
            self._failures.update(pair)
            if frozenset((one, other)) not in self._met:
                self._run.dead[one, other] = f"no data got through between {one} and {other}: {error}"

    def forget(self, pair: Pair) -> None:
        """Forget the failures of a pair and of the connection of its nodes, so that it is tried again."""
        here, there = self._run.nodes_of(pair)
        for nodes in ((here, there), (there, here)):
            self._run.dead.pop(nodes, None)
        for rank in pair:
            self._failures.pop(rank, None)
