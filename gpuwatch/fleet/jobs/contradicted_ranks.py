"""Finds processes that claim ranks of a job while the job's other nodes contradict the claim.

A node reports only by itself which ranks it runs, so a hostile or misconfigured node can claim any rank. All
nodes of one job report the same world size, and no two nodes have the same rank. A claim counts against
another one only if both nodes sent a list of processes after the other node's first claim: before that, a
restart may have moved the ranks.

Example: n1 lists ranks 0-7 and n2 ranks 8-15, both with world size 16. n3 lists ranks 0-7 with world size 8
under the same job name. As soon as all three have sent a list after the others' first one, two nodes agree on
16 (`AGREEING_NODES`), so n3's claims are contradicted and its processes are shown as a job of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias

AGREEING_NODES = 2
"""Number of nodes whose common world size is trusted: one hostile node cannot forge it."""
OUTWEIGHS = 2
"""If two nodes claim the same ranks, one with this many times the other's undisputed ranks is trusted."""
KEPT_RANKS = 4096
"""Maximum number of ranks of one node and job that are remembered and compared."""
COMPARED_NODES = 32
"""Maximum number of nodes compared, of those that list one rank or report other world sizes."""

Process: TypeAlias = tuple[int, float]
"""(process id, start in seconds on the node's clock)."""
Listed: TypeAlias = tuple[dict[int, Process], frozenset[int]]
"""The ranks of one job that a node lists as running, and the world sizes that they report."""


@dataclass(slots=True)
class Claim:
    """The ranks and world sizes that one node lists for one job, with the numbers of the lists."""

    ranks: dict[int, Process] = field(default_factory=dict)
    sizes: frozenset[int] = frozenset()
    """The world sizes that the node's processes of the job report."""
    machine: str = ""
    """The boot id, or the node's name if unknown."""
    listed_at: int = 0
    """The number of the node's newest rank list; all lists of the fleet are numbered by arrival."""
    first: dict[int, int] = field(default_factory=dict)
    """Rank -> the number of the list in which this node first claimed it."""
    lost: dict[int, Process] = field(default_factory=dict)
    """Processes whose claim was rejected in favour of another node.

    They stay rejected when that node's processes end.
    """
    since: int = 0
    """The number of the list in which the node first reported its world sizes."""

    def renew(self, ranks: dict[int, Process], sizes: frozenset[int], machine: str, number: int) -> None:
        """Replace the ranks and world sizes by those of the node's newest list, which has this number."""
        self.since = self.since if sizes == self.sizes else number
        self.ranks, self.sizes, self.machine, self.listed_at = ranks, sizes, machine, number
        for rank in ranks:
            self.first.setdefault(rank, number)
        self.lost = {rank: one for rank, one in self.lost.items() if ranks.get(rank) == one}
        while len(self.first) > max(KEPT_RANKS, len(ranks)):
            del self.first[next(iter(self.first))]

    def claimed_at(self, rank: int) -> int:
        """Return the number of the list in which the node first claimed a rank, else of its newest list."""
        return self.first.get(rank, self.listed_at)


class ContradictedRanks:
    """Decides for every node and job which of its processes the job's other nodes contradict."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[str, Claim]] = defaultdict(dict)
        """Job -> node -> what the node lists."""
        self._holders: dict[str, dict[int, set[str]]] = defaultdict(partial(defaultdict, set))
        """Job -> rank -> the nodes that list it."""
        self._stated: dict[str, Counter[int]] = defaultdict(Counter)
        """Job -> world size -> the number of nodes whose processes report it."""
        self._jobs: dict[str, set[str]] = defaultdict(set)
        """Node -> the jobs that it lists."""
        self._outside: set[tuple[str, str]] = set()
        """(job, node) of which no claim to a rank of the job is accepted."""
        self._sizes: dict[tuple[str, str], int] = {}
        """(job, node) -> the world size of the job on which several nodes agree."""

    def take(self, node: str, machine: str, listed: Mapping[str, Listed], number: int) -> set[str]:
        """Store what a node lists of each job; return the nodes for which the verdict changed.

        A verdict is which claims of a node the other nodes of the job contradict.

        Args:
            node: Its name.
            machine: Its boot id or name.
            listed: Job -> what the node lists of it.
            number: The number of this list among all lists of the fleet.
        """
        for job in self._jobs[node] - listed.keys():
            self._forget(node, job)
        changed: set[str] = set()
        for job, (ranks, sizes) in listed.items():
            claim = self._claims[job].setdefault(node, Claim())
            holders = self._holders[job]
            for rank in claim.ranks.keys() - ranks.keys():
                holders[rank].discard(node)
            for rank in ranks.keys() - claim.ranks.keys():
                holders[rank].add(node)
            self._stated[job].update(sizes - claim.sizes)
            self._stated[job] -= Counter(claim.sizes - sizes)
            claim.renew(ranks, sizes, machine, number)
            self._jobs[node].add(job)
            judged = {node, *self._beside(job, node, None), *self._dissenting(job, sizes)}
            changed.update(name for name in sorted(judged) if self._judge(name, job))
        return changed

    def contradicts(self, job: str, node: str, size: int | None, rank: int) -> bool:
        """Return True if other nodes contradict a node's claim to a rank of a job with this world size."""
        if (job, node) in self._outside:
            return True
        agreed = self._sizes.get((job, node))
        return agreed is not None and (rank >= agreed or size not in (None, agreed))

    def _forget(self, node: str, job: str) -> None:
        claim = self._claims[job].pop(node)
        for rank in claim.ranks:
            self._holders[job][rank].discard(node)
        self._stated[job] -= Counter(claim.sizes)
        self._jobs[node].discard(job)
        self._outside.discard((job, node))
        self._sizes.pop((job, node), None)
        if not self._claims[job]:
            del self._claims[job]
            self._holders.pop(job, None)
            del self._stated[job]

    def _judge(self, node: str, job: str) -> bool:
        """Determine again which claims of a node the others contradict; return True if the result changed."""
        key = (job, node)
        before = key in self._outside, self._sizes.get(key)
        size = self._agreed_size(node, job)
        if size is None:
            self._sizes.pop(key, None)
        else:
            self._sizes[key] = size
        if self._is_outweighed(node, job, size) or self._claims[job][node].lost:
            self._outside.add(key)
        else:
            self._outside.discard(key)
        return before != (key in self._outside, self._sizes.get(key))

    def _agreed_size(self, node: str, job: str) -> int | None:
        """Return the world size that most nodes of a job report, among nodes whose lists overlap in time.

        On a tie, the one that was agreed on before. None: fewer than AGREEING_NODES agree.
        """
        claims, stated = self._claims[job], self._stated[job]
        if len(claims) < AGREEING_NODES:
            return None
        if len(stated) < 2:
            return next((size for size, count in stated.items() if count >= AGREEING_NODES), None)
        own = claims[node]
        names = [
            name
            for name, claim in claims.items()
            if name != node and claim.listed_at > own.since and own.listed_at > claim.since
        ]
        votes = Counter(size for name in (node, *names) for size in claims[name].sizes)
        most = max(votes.values(), default=0)
        likely = [size for size, count in votes.items() if count == most]
        if len(likely) == 1:
            return likely[0] if most >= AGREEING_NODES else None
        agreed = [self._sizes.get((job, name)) for name in (node, *names)]
        return next((size for size in agreed if size in likely), None)

    def _dissenting(self, job: str, sizes: frozenset[int]) -> Iterator[str]:
        """Yield the nodes that report other world sizes of a job than `sizes`; at most `COMPARED_NODES`."""
        if len(self._stated[job]) < 2:
            return
        claims = self._claims[job]
        yield from islice((name for name, each in claims.items() if each.sizes != sizes), COMPARED_NODES)

    def _is_outweighed(self, node: str, job: str, size: int | None) -> bool:
        """Return True if a node's claim loses against the nodes that list the same ranks.

        It loses if it has more rivals than each of these has. If the numbers are equal, it loses if one rival
        outweighs it (`outweighs`) and was first. The disputed ranks are then added to the claim's `lost`.
        """
        own = self._claims[job][node]
        disputed = {rank: set(self._disputing(job, node, rank)) for rank in _compared(own, size)}
        rivals = set().union(*disputed.values())
        if not rivals:
            return False
        degree = max(len(self._beside(job, name, size)) for name in rivals)
        if len(rivals) != degree:
            outweighed = len(rivals) > degree
        else:
            ranks = [rank for rank, names in disputed.items() if names]
            outweighed = any(
                self._is_first(job, name, node, ranks)
                and outweighs(
                    self._undisputed(job, name, size), self._undisputed(job, node, size), len(ranks)
                )
                for name in rivals
            )
        if outweighed:
            own.lost.update((rank, own.ranks[rank]) for rank, names in disputed.items() if names)
        return outweighed

    def _is_first(self, job: str, one: str, other: str, ranks: Iterable[int]) -> bool:
        """Return True if node `one` claimed the ranks that both list before node `other` did."""
        ours, theirs = self._claims[job][one], self._claims[job][other]
        return all(ours.claimed_at(rank) < theirs.claimed_at(rank) for rank in ranks if rank in ours.ranks)

    def _disputing(self, job: str, node: str, rank: int) -> Iterator[str]:
        """Yield the other nodes that list a rank of the job at the same time as this node."""
        own = self._claims[job][node]
        for name in islice(self._holders[job][rank], COMPARED_NODES):
            claim = self._claims[job][name]
            twice = claim.machine == own.machine and claim.ranks[rank] == own.ranks[rank]
            if name == node or twice or (job, name) in self._outside:
                continue
            if claim.listed_at > own.claimed_at(rank) and own.listed_at > claim.claimed_at(rank):
                yield name

    def _beside(self, job: str, node: str, size: int | None) -> set[str]:
        """Return the other nodes that list at least one of the ranks that this node lists for the job."""
        holders = self._holders[job]
        ranks = _compared(self._claims[job][node], size)
        names = {name for rank in ranks for name in islice(holders[rank], COMPARED_NODES)}
        return {name for name in names - {node} if (job, name) not in self._outside}

    def _undisputed(self, job: str, node: str, size: int | None) -> int:
        """Return the number of ranks that only this node lists."""
        holders = self._holders[job]
        return sum(
            not any(name != node and (job, name) not in self._outside for name in holders[rank])
            for rank in _compared(self._claims[job][node], size)
        )


def outweighs(undisputed: int, others: int, disputed: int) -> bool:
    """Return True if a node is trusted over another node that claims the same ranks of a job.

    A node that claims all ranks of another node and few of its own is not.

    Args:
        undisputed: Number of ranks that only this node claims.
        others: Number of ranks that only the other node claims.
        disputed: Number of ranks that both claim.
    """
    return undisputed > disputed and undisputed >= OUTWEIGHS * others


def _compared(claim: Claim, size: int | None) -> Iterator[int]:
    """Yield the ranks of a claim that are compared: those below the world size, at most `KEPT_RANKS`."""
    return islice((rank for rank in claim.ranks if size is None or rank < size), KEPT_RANKS)
