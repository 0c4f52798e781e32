"""Which nodes reach which, as far as it is known: what is dead is reported, and not waited for again."""

from __future__ import annotations

from collections import Counter

from gpuwatch.probe.orchestration.planning.schedule import Pair
from gpuwatch.probe.orchestration.stages.run import ProbeRun

DEAD_PEERS = 3
"""A rank that reached none of so many others on other nodes, and nobody ever, is not waited for again."""


class Contacts:
    """Learns from every first contact of two ranks."""

    def __init__(self, run: ProbeRun) -> None:
        self._run = run
        self._met: set[frozenset[str]] = set()
        """Pairs of nodes that have exchanged something."""
        self._alive: set[int] = set()
        """Ranks that have exchanged something with another node."""
        self._failures: Counter[int] = Counter()
        """Rank -> how many ranks of other nodes it could not reach."""

    def error(self, pair: Pair) -> str | None:
        """Why there is no use in trying; None when there is."""
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
        """These two have exchanged something."""
        one, other = self._run.nodes_of(pair)
        if one != other:
            self._met.add(frozenset((one, other)))
            self._alive.update(pair)

    def failed(self, pair: Pair, error: str) -> None:
        """These two could not; their nodes are given up unless other ranks of them could."""
        one, other = self._run.nodes_of(pair)
        if one != other:
            self._failures.update(pair)
            if frozenset((one, other)) not in self._met:
                self._run.dead[one, other] = f"nothing came through between {one} and {other}: {error}"

    def forget(self, pair: Pair) -> None:
        """What was dead may have been mended: try again."""
        here, there = self._run.nodes_of(pair)
        for nodes in ((here, there), (there, here)):
            self._run.dead.pop(nodes, None)
        for rank in pair:
            self._failures.pop(rank, None)
