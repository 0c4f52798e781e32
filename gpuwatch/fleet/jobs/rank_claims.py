"""The processes that claim one rank of one job, grouped so that only different claims are compared.

Processes that agree in everything that can distinguish two jobs form one claim, and one of them is compared.
Normally a job's rank is claimed once; helper processes of a rank and jobs with the same name add a few
claims. If a node claims one rank more than `MAX_CLAIMS` times, only its first claims are compared, so that
the cost of a list grows linearly and not quadratically with its length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.wire import Process

MAX_CLAIMS = 32
"""Maximum number of compared claims to one rank by one node."""

ROOT = "root"
"""The user whose processes may belong to any job: wrappers and containers run as root."""

Likeness: TypeAlias = "tuple[str, str | None, int, str]"
_Meeting: TypeAlias = "tuple[str, int]"


class RunningRank(Struct, frozen=True):
    """A running rank, with everything that distinguishes its job from others."""

    host: str
    pid: int
    rank: int
    base: str
    """The first name of the rank's job, which another job may share."""
    master: str | None
    launcher: int
    """The pid of the rank's launcher; 0 if unknown."""
    folder: str
    start: float
    logs: tuple[str, ...]

    tree: str
    """The fleet-wide name of the process tree that started the rank."""
    node: str = ""
    size: int | None = None
    """The world size in the rank's environment."""
    user: str | None = None

    @property
    def likeness(self) -> tuple[str, str | None, int, str]:
        """Return (host, rendezvous, launcher, folder), which differ between jobs that claim the same rank."""
        return self.host, self.master, self.launcher, self.folder


class RankClaims:
    """The running processes that claim one rank of one job."""

    def __init__(self) -> None:
        self._claims: dict[Likeness, dict[int, RunningRank]] = {}
        """Distinguishing attributes -> pid -> process."""
        self._claimed: Counter[str] = Counter()
        """Host -> number of its claims that are compared."""
        self._uncompared: dict[str, dict[int, RunningRank]] = {}
        """Host -> pid -> the processes of its further claims, which are not compared."""

    @property
    def is_crowded(self) -> bool:
        """Return True if more processes of one node claim the rank than are compared."""
        return bool(self._uncompared)

    def add(self, member: RunningRank) -> bool:
        """Add a process; return True if it has to be compared with the other claims."""
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
        """Yield one process of each claim on the rank that is unlike that of `member`, for comparison."""
        for likeness, claim in list(self._claims.items()):
            if likeness != member.likeness:
                yield next(iter(claim.values()))

    def remove(self, member: RunningRank) -> bool:
        """Remove a process; return True if none is left."""
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
    """The users of the ranks of each job.

    On one node a job has one user, the one with most of its ranks overall.
    """

    def __init__(self) -> None:
        self._here: dict[str, dict[str, Counter[str]]] = {}
        """Node -> job -> user -> number of ranks there."""
        self._all: dict[str, Counter[str]] = defaultdict(Counter)
        """Job -> user -> number of ranks."""
        self.mixed: set[tuple[str, str]] = set()
        """(node, job) with ranks of several users."""

    def take(self, node: str, members: Sequence[RunningRank]) -> set[str]:
        """Store the ranks of a node; return the jobs whose owner changed."""
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
        """Return True if a process does not belong to the job's main user, who has ranks on the same node."""
        if (member.node, member.base) not in self.mixed or member.user in (None, ROOT):
            return False
        owner = self._owner(member.base)
        return owner != member.user and owner in self._here[member.node][member.base]

    def _owner(self, job: str) -> str | None:
        """Return the user with most ranks of a job; on a tie, the first one seen; None: unknown."""
        users = self._all.get(job)
        return max(users, key=lambda user: users[user]) if users else None


class StatedIds:
    """The ids of jobs by rendezvous and world size, as ranks state them.

    A launcher that starts ranks over ssh (mpirun in a Slurm allocation) passes its own environment to those
    beside it only. The others, which lack the id, are of the same job if its ranks are not theirs.
    """

    def __init__(self) -> None:
        self._ids: dict[_Meeting, dict[str, tuple[set[str], set[int]]]] = {}
        """Rendezvous and size -> node -> ids and ranks of the processes that state an id."""
        self._nodes: dict[str, set[_Meeting]] = {}
        self._given: dict[str, dict[tuple[int, float | None], str | None]] = {}
        """Node -> pid and start -> the id that other ranks state."""

    def take(self, node: str, ranked: Sequence[Process]) -> list[str | None]:
        """Store what the ranks of a node state; return the id of each: its own, or that of those it met.

        A process keeps the id that it was given when the ranks that stated it have ended. None: unknown.
        """
        self._forget(node)
        for process in ranked:
            meeting = _meeting(process)
            if meeting is not None and process.job is not None and process.rank is not None:
                ids, ranks = self._ids.setdefault(meeting, {}).setdefault(node, (set(), set()))
                ids.add(process.job)
                ranks.add(process.rank)
                self._nodes.setdefault(node, set()).add(meeting)
        before = self._given.get(node, {})
        given = {(one.pid, one.start): self._of(one) or before.get((one.pid, one.start)) for one in ranked}
        self._given[node] = given
        return [process.job or given[process.pid, process.start] for process in ranked]

    def _forget(self, node: str) -> None:
        for before in self._nodes.pop(node, ()):
            del self._ids[before][node]
            if not self._ids[before]:
                del self._ids[before]

    def _of(self, process: Process) -> str | None:
        """Return the job id that the ranks at a process's rendezvous state.

        None: the process states a job; they state none or several; or one of them has its rank.
        """
        meeting = _meeting(process)
        if process.job is not None or meeting is None or meeting not in self._ids:
            return None
        stated = self._ids[meeting].values()
        ids = {job for found, _ in stated for job in found}
        taken = any(process.rank in ranks for _, ranks in stated)
        return ids.pop() if len(ids) == 1 and not taken else None


def _meeting(process: Process) -> _Meeting | None:
    """Return the rendezvous of a process, with a port, and its world size; None where they name no job."""
    size, master = process.world_size, process.master
    if size is None or master is None or process.on_loopback:
        return None
    return (master, size) if master.rpartition(":")[2].isdecimal() else None
