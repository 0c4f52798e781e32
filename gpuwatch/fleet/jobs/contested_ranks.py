"""Ranks that several nodes list at the same time, and the resulting places of these ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from gpuwatch.fleet.jobs.contradicted_ranks import outweighs
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.fleet.nodes.node import Node

Contested: TypeAlias = frozenset[tuple[str | None, int, str]]
"""Contested ranks: (job, rank, node)."""
MOVED_S = 60.0
Ranks: TypeAlias = Mapping[tuple[str | None, int], RankPlace]


class Claimants:
    """The nodes that list each rank as running, weighed by the number of ranks that only they list."""

    def __init__(self, ranks: Collection[RankPlace], contested: Contested) -> None:
        self._nodes: dict[int, dict[str | None, set[str]]] = defaultdict(partial(defaultdict, set))
        """Rank -> job -> the nodes that claim it."""
        self._contradicted: dict[tuple[str | None, int], set[str]] = defaultdict(set)
        """(job, rank) -> the nodes whose claim to the rank is contradicted by the job's other nodes."""
        self._there: dict[str, set[tuple[str | None, int]]] = defaultdict(set)
        """Node -> (job, rank) of everything that runs there."""
        for place in ranks:
            if place.until is None:
                self._nodes[place.rank][place.job].add(place.node)
                self._there[place.node].add((place.job, place.rank))
        self._disputed: set[tuple[str | None, int]] = set()
        jobs = {node: {job for job, _ in there} for node, there in self._there.items()}
        for job, rank, node in contested:
            if job in jobs.get(node, ()):
                self._nodes[rank][job].add(node)
            elif f"{job}@{node}" in jobs.get(node, ()):
                self._contradicted[job, rank].add(node)
            else:
                continue
            self._disputed.add((job, rank))
        places = {(place.job, place.rank, place.node) for place in ranks}
        sure = {(job, node) for job, _, node in places - contested}
        unsure = {(job, node) for job, _, node in places & contested} - sure
        self._doubtful = {(job, node) for job, node in unsure if not self.undisputed(node, job)}
        self._members = {(job, node) for job, _, node in places} - self._doubtful

    def of(self, rank: int, job: str | None = None) -> set[str]:
        """Return the nodes on which a rank of a job runs by their own reports: one node in a consistent job.

        A node that listed the rank at the same time as another one, and lists other ranks of the job, claims
        it until the job ends. `job` None: of the job for which most nodes claim the rank.
        """
        found = [
            nodes | self._contradicted.get((name, rank), set())
            for name, nodes in self._nodes.get(rank, {}).items()
            if job is None or name in (None, job)
        ]
        return max(found, key=len, default=set())

    def undisputed(self, node: str, job: str | None = None) -> int:
        """Return the number of ranks on a node (of a job; None: of all jobs) that no other node claims."""
        there = (each for each in self._there.get(node, ()) if job is None or each[0] in (None, job))
        return sum(not self._nodes[rank][name] - {node} for name, rank in there)

    def is_doubtful(self, node: str | None, job: str | None) -> bool:
        """Return True if other nodes listed all ranks of a job at the same time as this one, and still do."""
        return (job, node) in self._doubtful

    def is_member(self, node: str, job: str | None) -> bool:
        """Return True if a node ran ranks of a job that no other node listed at the same time.

        `job` None: of any job.
        """
        return (job, node) in self._members or any(job is None and name == node for _, name in self._members)

    def is_disputed(self, place: RankPlace) -> bool:
        """Return True if several nodes listed the rank at the same time and still list ranks of its job."""
        return (place.job, place.rank) in self._disputed

    def outweighs(self, one: str, other: str, job: str | None) -> bool:
        """Return True if node `one` is trusted more than node `other` for a rank of a job that both claim."""
        there = [each for each in self._there.get(other, ()) if job is None or each[0] in (None, job)]
        disputed = max(1, sum(one in self._nodes[rank][name] for name, rank in there))
        return outweighs(self.undisputed(one, job), self.undisputed(other, job), disputed)

    def is_outweighed(self, place: RankPlace) -> bool:
        """Return True if another node that listed the place's rank at the same time is trusted instead."""
        if not self.is_disputed(place):
            return False
        others = self._nodes[place.rank][place.job] - {place.node}
        return any(self.outweighs(other, place.node, place.job) for other in others)


def contested_ranks(nodes: Collection[Node]) -> Contested:
    """Return (job, rank, node) of the ranks that connected nodes now list on several machines.

    The ranks of nodes whose claim is contradicted by the job's other nodes are included.
    """
    claimants: dict[tuple[str | None, int], dict[object, set[str]]] = {}
    live = {node.name for node in nodes if node.link.phase == "live"}
    for node in nodes if len(live) > 1 else ():
        for process in node.processes if node.name in live else ():
            if process.rank is not None and process.state != "Z":
                claims = claimants.setdefault((process.job, process.rank), {})
                boot = None if node.hello is None else node.hello.boot_id
                one = node.name if boot is None else (boot, process.pid, process.start)
                claims.setdefault(one, set()).add(node.name)
                rival = node.rivals.get(process.rank)
                if rival in live and rival is not None:
                    claims.setdefault(rival, set()).add(rival)
    return frozenset(
        (*key, name)
        for key, claims in claimants.items()
        if len(claims) > 1
        for names in claims.values()
        for name in names
    )


def still_contested(before: Places | None, ranks: Ranks) -> Contested:
    """Return those earlier contested ranks whose job and rank are still in `ranks`."""
    earlier = frozenset() if before is None else before.contested
    return frozenset(each for each in earlier if each[:2] in ranks)


def ended_rivals(
    earlier: Iterable[RankPlace],
    ranks: Ranks,
    rivals: Collection[RankPlace],
    contested: Contested,
    wall: float | None,
) -> Iterator[RankPlace]:
    """Yield earlier places of ranks on nodes that no longer list the rank, while another node lists it.

    The rank may not have moved there. Included are places that both nodes listed at the same time and, for
    `MOVED_S`, all: in that time the other nodes may still contradict the claim. `wall`: unix seconds.
    """
    listed = {(place.job, place.rank, place.node) for place in (*ranks.values(), *rivals)}
    for place in earlier:
        key = place.job, place.rank, place.node
        if key in listed or key[:2] not in ranks or place.pid is None or is_contradicted(place, ranks):
            continue
        ended = place if place.until is not None else replace(place, until=wall)
        moved = wall is not None and ended.until is not None and wall - ended.until <= MOVED_S
        if key in contested or moved:
            listed.add(key)
            yield ended


def is_contradicted(place: RankPlace, ranks: Ranks) -> bool:
    """Return True if the place's node now lists the rank under a job name of its own.

    The process then never was a rank of the job.
    """
    return (f"{place.job}@{place.node}", place.rank) in ranks
