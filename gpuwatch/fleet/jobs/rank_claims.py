"""Who claims one rank of one job: the processes that are to be compared with each other.

Processes that agree in all that can distinguish two jobs are one claim: of them one is compared. A job's
rank is claimed once; a few times by the helpers of a rank and by jobs that share a name. A node that claims
one rank more often than `MAX_CLAIMS` is compared by its first claims alone, so that the cost of a list
grows with its length and not with its square.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

MAX_CLAIMS = 32
"""Of one rank by one node."""

ROOT = "root"
"""Whose processes may be of any job: wrappers and containers run as root."""

Likeness: TypeAlias = "tuple[str, str | None, int, str]"


@dataclass(frozen=True, slots=True)
class RunningRank:
    """A rank that runs, and everything that distinguishes its job from others."""

    host: str
    pid: int
    rank: int
    base: str
    """The first name that it has, which another job may have as well."""
    master: str | None
    launcher: int
    """What started it; 0 where that is not known."""
    folder: str
    start: float
    logs: tuple[str, ...]

    tree: str
    """What it was started by, among all nodes."""
    node: str = ""
    size: int | None = None
    """The world size that it states."""
    user: str | None = None

    @property
    def likeness(self) -> tuple[str, str | None, int, str]:
        """What alone distinguishes its job from others that claim the same rank."""
        return self.host, self.master, self.launcher, self.folder


class RankClaims:
    """The living processes that claim one rank of one job."""

    def __init__(self) -> None:
        self._claims: dict[Likeness, dict[int, RunningRank]] = {}
        """By what distinguishes jobs, and by pid."""
        self._claimed: Counter[str] = Counter()
        """Host -> its claims that are compared."""
        self._uncompared: dict[str, dict[int, RunningRank]] = {}
        """Host -> pid -> the processes of its further claims."""

    @property
    def is_crowded(self) -> bool:
        """Whether a node claims the rank more often than is compared."""
        return bool(self._uncompared)

    def add(self, member: RunningRank) -> bool:
        """Take in a process; whether it is to be compared with the others."""
        claim = self._claims.get(member.likeness)
        if claim is None:
            if self._claimed[member.host] >= MAX_CLAIMS:
                self._uncompared.setdefault(member.host, {})[member.pid] = member
                return False
            self._claimed[member.host] += 1
            claim = self._claims[member.likeness] = {}
        first = not claim
        claim[member.pid] = member
        return first

    def unlike(self, member: RunningRank) -> Iterator[RunningRank]:
        """One process of every other claim."""
        for likeness, claim in list(self._claims.items()):
            if likeness != member.likeness:
                yield next(iter(claim.values()))

    def remove(self, member: RunningRank) -> bool:
        """Forget a process; whether nobody is left."""
        further = self._uncompared.get(member.host, {})
        claim = self._claims.get(member.likeness, {})
        if further.pop(member.pid, None) is not None:
            if not further:
                del self._uncompared[member.host]
        elif claim.pop(member.pid, None) is not None and not claim:
            del self._claims[member.likeness]
            self._claimed[member.host] -= 1
        return not self._claims and not self._uncompared


class JobUsers:
    """The users of the ranks of each job. On one node it is of one user: the one with most ranks in all."""

    def __init__(self) -> None:
        self._here: dict[str, dict[str, Counter[str]]] = {}
        """Node -> job -> user -> ranks there."""
        self._all: dict[str, Counter[str]] = defaultdict(Counter)
        """Job -> user -> ranks."""
        self.mixed: set[tuple[str, str]] = set()
        """Node and job, where ranks of several users run."""

    def take(self, node: str, members: Sequence[RunningRank]) -> set[str]:
        """Take in the ranks of a node; the jobs that are of another user now."""
        here: dict[str, Counter[str]] = defaultdict(Counter)
        for member in members:
            if member.user not in (None, ROOT):
                here[member.base][str(member.user)] += 1
        before = self._here.get(node, {})
        owners = {job: self._owner(job) for job in (*before, *here)}
        for job, users in before.items():
            self._all[job] -= users
        for job, users in here.items():
            self._all[job] += users
        self._here[node] = dict(here)
        self.mixed -= {(node, job) for job in before}
        self.mixed |= {(node, job) for job, users in here.items() if len(users) > 1}
        changed = {job for job, owner in owners.items() if owner not in (None, self._owner(job))}
        for job in owners:
            if not self._all[job]:
                del self._all[job]
        return changed

    def is_strange(self, member: RunningRank) -> bool:
        """Whether a process runs beside ranks of its job that are another user's."""
        if (member.node, member.base) not in self.mixed or member.user in (None, ROOT):
            return False
        owner = self._owner(member.base)
        return owner != member.user and owner in self._here[member.node][member.base]

    def _owner(self, job: str) -> str | None:
        """The user with most ranks of a job; of equal ones the first that was seen."""
        users = self._all.get(job)
        return max(users, key=lambda user: users[user]) if users else None
