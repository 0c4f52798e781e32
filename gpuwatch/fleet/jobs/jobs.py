"""Assigns processes, log files and lines to jobs; every package uses this one rule.

The job's name comes from the first of these that is known: the id in the environment of its processes
(Slurm's, the launcher's run id, PMIx's namespace); its rendezvous, MASTER_ADDR:PORT; its world size,
`unnamed-8`. A rendezvous on the loopback interface belongs to one node, with its port (`n1:29500`) or without
(`unnamed-8@n1`); the same holds for ranks that a program numbers itself, unless it states a rendezvous. A job
has each rank once: if two running processes claim the same rank, they belong to two jobs, which are told
apart by their rendezvous, by their launcher, and by the folders that they write to. Whatever stays ambiguous
has no job.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from gpuwatch.fleet.jobs.contradicted_ranks import ContradictedRanks, Listed
from gpuwatch.fleet.jobs.job_files import JobFiles, home
from gpuwatch.fleet.jobs.rank_claims import MAX_CLAIMS, JobUsers, RankClaims, RunningRank, StatedIds
from gpuwatch.wire import LogFile, Process

UNNAMED = "unnamed"
EACH = "each"
KEPT_LAUNCHERS = 1024
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"


class Jobs:
    """Names every job of a fleet; a name that distinguishes a job from others stays until it ends."""

    def __init__(self) -> None:
        self._members: dict[str, list[RunningRank]] = {}
        self._claims: dict[tuple[str, int], RankClaims] = {}
        """(base name, rank) -> the processes that claim it."""
        self._nodes: dict[str, Counter[str]] = {}
        """Base name -> nodes, with the number of its ranks there."""
        self._alive: Counter[str] = Counter()
        """Name -> the number of nodes on which it has ranks."""
        self._writing: Counter[str] = Counter()
        """Name -> the number of nodes on which its ranks write files."""
        self._here: dict[str, tuple[set[str], set[str]]] = {}
        """Node -> the job names there, and those of them that write files there."""
        self._first: OrderedDict[str, str] = OrderedDict()
        """The launcher of a job that may be restarted -> its first rendezvous."""
        self._moved: OrderedDict[str, str] = OrderedDict()
        """A rendezvous that was reopened on another port -> the first one."""
        self._by_master: dict[str, str | None] = {}
        """Base name used with several rendezvous -> the rendezvous that keeps the name."""
        self._apart: dict[str, set[str]] = {}
        """Base name -> process trees that are separate jobs, or EACH."""
        self._by_folder: dict[str, set[str]] = {}
        """Base name -> process trees that are several jobs, each with a folder of its own."""
        self._doubts: dict[str, set[tuple[str, int]]] = {}
        """Host -> (base name, rank) claimed elsewhere since the host's last list.

        The process there may have ended.
        """
        self._contested: set[str] = set()
        """Nodes with ranks that another node claims too."""
        self._files = JobFiles()
        self._users = JobUsers()
        self._ids = StatedIds()
        self._contradicted = ContradictedRanks()
        self._lists = 0
        """The number of process lists processed so far."""

    def take(
        self, node: str, host: str, reported: Sequence[Process], machine: str | None = None
    ) -> tuple[bool, set[str]]:
        """Store the processes of a node and determine the jobs of its ranks.

        Args:
            node: As the plan names it.
            host: The host name that no other node has.
            reported: As its agent lists them.
            machine: Its boot id, if known.

        Returns:
            True if its ranks or the verdict on them changed; the nodes on which jobs were renamed thereby.
        """
        ranked = [process for process in reported if process.rank is not None]
        ids = self._ids.take(node, ranked)
        found = [_member(self, one, node, host, job) for one, job in zip(ranked, ids, strict=True)]
        before = self._members.get(node, [])
        doubted = self._doubts.pop(host, set())
        if found == before and not doubted:
            weighed = self._weigh(node, machine or node, zip(found, ranked, strict=True))
            for each in weighed:
                self._write(each)
            return node in weighed, weighed
        for member in before:
            self._remove(node, member)
        self._members[node] = found
        renamed: set[str] = set()
        for base in self._users.take(node, found):
            renamed.update(self._nodes.get(base, ()))
        for member in found:
            self._nodes.setdefault(member.base, Counter())[node] += 1
            claims = self._claims.setdefault((member.base, member.rank), RankClaims())
            sure = (member.base, member.rank) in doubted
            comparable = claims.add(member)
            others = self._others(claims, member) if comparable else ()
            new = [self._distinguish(member, each, sure=sure) for each in others]
            if any(new):
                renamed.update(self._nodes[member.base])
        renamed |= self._weigh(node, machine or node, zip(found, ranked, strict=True))
        for base in {member.base for member in before} - set(self._nodes):
            for marks in (self._by_master, self._apart, self._by_folder):
                marks.pop(base, None)  # no job is left that the next one of this name could be confused with
        for each in {node, *renamed}:
            self._write(each)
        return True, renamed

    def rivals(self, node: str) -> dict[str, dict[int, str]]:
        """Return node -> rank -> another node that claims this rank of the same job.

        Covers this node and all nodes whose ranks are judged again with it; empty if nothing can have
        changed. Ranks with different masters belong to two jobs, although their names differ only once both
        nodes have listed them again.
        """
        if node not in self._contested and not self._is_contested(node):
            return {}
        beside = (each for member in self._members.get(node, ()) for each in self._nodes[member.base])
        listed = {
            name: [
                ((f"{self._claimed_name(member)} {member.master or ''}", member.rank), member.host)
                for member in self._members.get(name, ())
            ]
            for name in {node, *beside, *self._contested}
        }
        claims: dict[tuple[str, int], dict[str, str]] = {}
        for name, claimed in listed.items():
            for claim, host in claimed:
                claims.setdefault(claim, {}).setdefault(host, name)
        found = {
            name: {
                claim[1]: next(at for other, at in claims[claim].items() if other != host)
                for claim, host in claimed
                if len(claims[claim]) > 1
            }
            for name, claimed in listed.items()
        }
        self._contested = {name for name, rivals in found.items() if rivals}
        return found

    def _is_contested(self, node: str) -> bool:
        """Return True if another host claims a rank of this node for the same job."""
        return any(
            other.host != member.host
            and self._claimed_name(other) == self._claimed_name(member)
            and other.master == member.master
            for member in self._members.get(node, ())
            if EACH not in self._apart.get(member.base, ())
            for other in self._claims[member.base, member.rank].unlike(member)
        )

    def crowded(self, node: str) -> dict[int, int]:
        """Return rank -> number of a node's processes that claim it, if there are more than `MAX_CLAIMS`."""
        claimed = Counter((member.base, member.rank) for member in self._members.get(node, ()))
        return {
            rank: count
            for (base, rank), count in claimed.items()
            if count > MAX_CLAIMS and self._claims[base, rank].is_crowded
        }

    def named(self, node: str, reported: Sequence[Process]) -> list[Process]:
        """Return a node's processes with their jobs filled in; `take` must have processed them before."""
        names = {member.pid: self._name(member) for member in self._members.get(node, ())}
        found = []
        for process in reported:
            ranked = process.rank is not None
            job = names.get(process.pid) if ranked else process.job or _whole(process.master)
            found.append(process if job == process.job else structs.replace(process, job=job))
        return found

    def files(self, node: str, files: Sequence[LogFile]) -> list[LogFile]:
        """Return a node's log files with their jobs filled in."""
        owners: dict[int, set[str]] = {}
        for member in self._members.get(node, ()):
            for pid in (member.pid, member.launcher):
                owners.setdefault(pid, set()).add(self._name(member))
        silent = self._alive.keys() - self._writing.keys()
        here = {name for names in owners.values() for name in names}
        return self._files.take(node, files, owners, here & silent, silent)

    def take_earlier(self, writers: Mapping[str, str]) -> None:
        """Store the jobs that wrote log files in an earlier session: path -> job."""
        self._files.earlier = writers

    def take_renamed(self) -> set[str]:
        """Return the nodes whose ended jobs were renamed since the last call."""
        return self._files.take_renamed()

    def of_line(self, node: str, file: str, reported: str | None) -> str | None:
        """Return the job of a line in a file; None: unknown.

        It is the reported one, or the file's if none is reported or the file's is a newer name of the
        reported one. `reported`: the job by the agent, or as named earlier; None: unknown.
        """
        job = self._files.of(node, file)
        if reported is None or job is None:
            return job if reported is None else reported
        newer = job.startswith(f"{reported}@") or self._files.was(node, file, reported)
        return job if newer else reported

    def lasting(self, launcher: str, master: str) -> str:
        """Return the first rendezvous of a job; torchrun may open another port for every attempt."""
        first = self._first.setdefault(launcher, self._moved.get(master, master))
        if first != master:
            self._moved[master] = first
        for kept in (self._first, self._moved):
            while len(kept) > KEPT_LAUNCHERS:
                kept.popitem(last=False)
        return first

    def _weigh(self, node: str, machine: str, listed: Iterable[tuple[RunningRank, Process]]) -> set[str]:
        """Compare a node's ranks with those of other nodes; return the nodes with a changed verdict."""
        self._lists += 1
        claims: dict[str, Listed] = {}
        for member, process in listed:
            if process.state != "Z" and not member.base.startswith(UNNAMED):
                name = self._claimed_name(member)
                ranks, sizes = claims.get(name, ({}, frozenset()))
                ranks.setdefault(member.rank, (member.pid, member.start))
                stated = sizes if member.size is None else sizes | {member.size}
                claims[name] = ranks, stated
        return self._contradicted.take(node, machine, claims, self._lists)

    def _name(self, member: RunningRank) -> str:
        name = self._claimed_name(member)
        apart = self._contradicted.contradicts(name, member.node, member.size, member.rank)
        return f"{name}@{member.node}" if apart else name

    def _claimed_name(self, member: RunningRank) -> str:
        """Return the job name of a process, assuming that no other node contradicts its claim."""
        base = member.base
        if (member.node, base) in self._users.mixed and self._users.is_strange(member):
            base = f"{base}@{member.user}"
        first = self._by_master.get(base, member.master)
        name = base if member.master in (None, first) else f"{base}@{member.master}"
        apart = self._apart.get(base, ())
        if EACH in apart or member.tree in apart:
            name = f"{name}@{member.tree}"
        by_folder = member.folder and member.tree in self._by_folder.get(base, ())
        return f"{name}@{member.folder}" if by_folder else name

    def _others(self, claims: RankClaims, member: RunningRank) -> Iterator[RunningRank]:
        """Yield the other processes that claim the same rank and may have the same job name."""
        each_apart = EACH in self._apart.get(member.base, ())
        unnamed = member.base.startswith(UNNAMED)
        for other in claims.unlike(member):
            if each_apart and other.tree != member.tree:
                continue
            if (
                other.host != member.host
                and not unnamed
                and (None in (member.master, other.master) or member.master == other.master)
            ):
                continue  # one job on several nodes
            yield other

    def _distinguish(self, one: RunningRank, other: RunningRank, *, sure: bool) -> bool:
        """Record what distinguishes two jobs whose processes claim one rank; return True if it was not known.

        `sure`: the other process was listed on its node after this one was listed on its own.
        """
        if self._name(one) != self._name(other):
            return False
        base, here = one.base, one.host == other.host
        unnamed = base.startswith(UNNAMED)
        two_masters = None not in (one.master, other.master) and one.master != other.master
        two_trees = one.tree != other.tree
        older, younger = sorted((one, other), key=lambda each: (each.start, each.pid))
        if not here and not sure:
            if two_masters or unnamed:
                self._doubts.setdefault(other.host, set()).add((base, other.rank))
        elif two_masters:
            self._by_master.setdefault(base, older.master)
        elif two_trees and unnamed:
            self._apart.setdefault(base, set()).add(EACH)  # which of the other trees belong together?
        elif two_trees and here and 0 not in (one.launcher, other.launcher):
            self._apart.setdefault(base, set()).add(younger.tree)
        elif unnamed and "" != one.folder != other.folder != "":
            self._by_folder.setdefault(base, set()).add(one.tree)
        return self._name(one) != self._name(other)

    def _remove(self, node: str, member: RunningRank) -> None:
        key = (member.base, member.rank)
        claims = self._claims.get(key)
        if claims is not None and claims.remove(member):
            del self._claims[key]
        here = self._nodes[member.base]
        here[node] -= 1
        if not here[node]:
            del here[node]
        if not here:
            del self._nodes[member.base]

    def _write(self, node: str) -> None:
        """Record the names of a node's jobs, and which files each of them writes."""
        names: set[str] = set()
        written: dict[str, set[str]] = {}
        for member in self._members[node]:
            name = self._name(member)
            names.add(name)
            for path in member.logs:
                written.setdefault(path, set()).add(name)
        before, self._here[node] = self._here.get(node), (names, set().union(*written.values()))
        for count, which in ((self._alive, 0), (self._writing, 1)):
            count.update(self._here[node][which])
            for name in () if before is None else before[which]:
                count[name] -= 1
                if not count[name]:
                    del count[name]
        self._files.write(node, written)


def _member(jobs: Jobs, process: Process, node: str, host: str, job: str | None) -> RunningRank:
    launcher = process.launcher or 0
    master = _whole(process.master)
    if master is not None and process.on_loopback:
        master = f"{host}:{master.rpartition(':')[2]}"
    if master is not None and _RESTARTS in process.variables:
        master = jobs.lasting(f"{host}:{launcher or process.pid}", master)
    size = "" if process.world_size is None else f"-{process.world_size}"
    alone = process.on_loopback or process.rank_source is not None  # siblings number themselves from 0
    place = host if process.on_loopback or process.master is None else process.master if alone else ""
    return RunningRank(
        host,
        process.pid,
        process.rank if process.rank is not None else -1,
        job or master or f"{UNNAMED}{size}{f'@{place}' if alone else ''}",
        master,
        launcher,
        home(process.logs[0]) if process.logs else "",
        process.start or 0.0,
        tuple(process.logs),
        f"{host}:{launcher}",
        node,
        process.world_size,
        process.user,
    )


def _whole(master: str | None) -> str | None:
    """Return a rendezvous address if it has a port; else None, as it then identifies a node, not a job."""
    return master if master is not None and master.rpartition(":")[2].isdecimal() else None
