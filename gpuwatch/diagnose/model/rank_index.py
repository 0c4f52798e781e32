"""Index of rank placement: finds the rank of a process, GPU, log file, address or host name.

Example: a line on gpu-003 names PCI address `0000:1b:00.0`; `by('gpu-003', 'bus', ...)` returns the place of
the only rank with that GPU (rank 17, GPU 1). If two jobs shared the GPU at that moment, it returns None
rather than guess.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from gpuwatch import shell_command
from gpuwatch.fleet.jobs.contested_ranks import Claimants
from gpuwatch.fleet.jobs.ended_files import has_own_id
from gpuwatch.fleet.jobs.places import Places, RankPlace, Reach
from gpuwatch.wire import SLURM_TASK

STARTED_S = 5.0
"""Seconds by which a job's report may be dated before its processes start, by another clock."""
UNKNOWN_START_S = 2400.0
"""Seconds before the end of a rank's log for which the rank counts as running, if only the end is dated.

Longer than the time-outs of collectives (600 to 1,800 s).
"""
LAST_WORDS_S = 120.0
"""Seconds after its ranks ended for which reports about a job still count; launchers wait 30 to 60 s."""

MOST_ON_NODE = 8
"""Ranks that one node usually has at most: one for each GPU."""
MAX_WORLD = 1 << 16
"""Largest believable WORLD_SIZE; any user can set one in the environment of a process."""


class RankIndex:
    """An index over `Places`, whose content does not change afterwards.

    Only jobs that ran at the given time count; ambiguous lookups return None.
    """

    def __init__(self, places: Places) -> None:
        self.claimants = Claimants(places.ranks, places.contested)
        if places.contested:
            believed = tuple(place for place in places.ranks if not self.claimants.is_outweighed(place))
            places = replace(places, ranks=believed)
        self.places = places
        """All placements, without those claimed by nodes that other nodes outweigh."""
        self._rank: dict[int, list[RankPlace]] = defaultdict(list)
        self._node: dict[str, list[RankPlace]] = defaultdict(list)
        self._key: dict[tuple[str, str, object], list[RankPlace]] = defaultdict(list)
        self._file: dict[str, list[RankPlace]] = defaultdict(list)
        self.sizes: dict[str | None, int] = {}
        """Job -> its world size, where its ranks report it."""
        for place in places.ranks:
            self._add(place)
        if places.world is not None:
            self.sizes[None] = max(self.sizes.get(None, 0), places.world)
        self.jobs = {place.job for place in places.ranks} - {None}
        self._ran = _times(places.ranks)
        self._names = _names({name: name for name in self._node} | places.addresses)
        self._gpus = {
            (node, name if name.startswith(("GPU-", "MIG-")) else bus_key(name)): index
            for (node, name), index in places.gpus.items()
        }

    def _add(self, place: RankPlace) -> None:
        self._rank[place.rank].append(place)
        self._node[place.node].append(place)
        bus = None if place.bus_id is None else bus_key(place.bus_id)
        named = (
            ("gpu", place.gpu),
            ("uuid", place.gpu_uuid),
            ("bus", bus),
            ("pid", place.pid),
            ("inner pid", place.inner_pid),
            ("local", place.local_rank),
        )
        for kind, value in named:
            if value is not None:
                self._key[place.node, kind, value].append(place)
        for child in place.children:
            self._key[place.node, "child", child].append(place)
        for file in place.logs:
            self._file[file].append(place)
        if place.world_size is not None:
            self.sizes[place.job] = max(self.sizes.get(place.job, 0), place.world_size)

    def of(self, rank: int, job: str | None = None, at: float | None = None) -> RankPlace | None:
        """Return the place of a rank; None if it is unknown, or several jobs have it and `job` is None."""
        found = self._rank.get(rank, ())
        if job is None and len(self.jobs) > 1:
            able = {each for each in self.running(at) if self.may_have(each, rank)}
            found = [place for place in found if {place.job} == able]
        # a rank did not move because one of the nodes that listed it at one time stopped listing it
        return _only(found, job, ended=any(map(self.claimants.is_disputed, found)))

    def by(
        self, node: str | None, kind: str, value: object, job: str | None = None, at: float | None = None
    ) -> RankPlace | None:
        """Return the rank of a node that `kind` and `value` identify; None if none or several match.

        `kind`: gpu (index), uuid, bus (PCI address as of `bus_key`), pid, inner pid (in its container), child
        (pid of what it has started) or local (rank). `at`: unix seconds; only ranks that lived then count.
        """
        known = () if node is None else self._key.get((node, kind, value), ())
        return _only([place for place in known if lived(place, at)], job)

    def numbered(self, word: str | None, number: int | None, job: str | None) -> RankPlace | None:
        """Return the place of rank `worker 3`, node "" if unknown; None: such numbers may not be ranks."""
        of_task = word == SLURM_TASK and self.tasks_are_ranks(job)
        if number is None or not (of_task or word in self.places.counted):
            return None
        return self.of(number, job) or RankPlace(number, "", job)

    def tasks_are_ranks(self, job: str | None) -> bool:
        """Return True if each Slurm task of a job is known to be the rank of its number."""
        return job in self.places.task_jobs or SLURM_TASK in self.places.counted

    def only(self, kind: str, value: object, job: str | None = None) -> RankPlace | None:
        """Return the only rank of a job with this value, among ranks of unknown node; else None.

        `kind`: bus (PCI address as of `bus_key`) or pid.
        """
        found = [place for place in self.places.ranks if not place.node]
        if kind == "bus":
            return _only([each for each in found if each.bus_id and bus_key(each.bus_id) == value], job)
        return _only([each for each in found if each.pid == value], job)

    def of_pid(
        self, node: str | None, pid: object, job: str | None = None, *, kernel: bool = False
    ) -> RankPlace | None:
        """Return the only rank of an ended job that has or started a process, on the node or one unknown.

        None: none or several, or the fleet is live. `kernel`: the kernel of the node, if that is known,
        states the pid, which is then of no other node.
        """
        if self.places.live:
            return None
        known = {place.node for place in self.places.ranks} - {""}
        anywhere = node is None or (node not in known and not kernel)
        here = [
            place
            for place in self.places.ranks
            if (place.pid == pid or pid in place.children) and (anywhere or place.node in ("", node))
        ]
        return _only(here, job)

    def of_name(self, names: Iterable[str], job: str | None = None) -> RankPlace | None:
        """Return the only rank that these names of an ended job's processes mean; None: none, several."""
        ranks = {self.places.names[name] for name in names if name in self.places.names}
        rank = next(iter(ranks), None)
        return None if rank is None or len(ranks) > 1 else self.of(rank, job) or RankPlace(rank, "", job)

    def only_local(self, local_rank: int, job: str | None = None) -> RankPlace | None:
        """Return the only rank of a job with this local rank, if all of its ranks are known; else None."""
        if len({place.rank for place in self.ranks(job)}) < self.size(job):
            return None
        return _only([each for each in self.places.ranks if each.local_rank == local_rank], job)

    def writes_elsewhere(self, place: RankPlace, node: str | None, file: str) -> bool:
        """Return True if neither a running rank on `node` nor its launcher, of known files, writes `file`."""
        if place.until is not None or place.node != node:
            return False
        launcher = self.places.outputs.get((place.node, place.launcher or -1), frozenset())
        return bool(launcher) and file not in launcher and file not in place.logs

    def of_one_node(self, node: str | None, local_rank: int, job: str | None = None) -> RankPlace | None:
        """Return the rank with a local rank that a launcher logs, if an ended job has one node; else None.

        That is a job of known size, with no more ranks than one node usually runs, that names no other node.
        """
        places, size = self.ranks(job), self.size(job)
        nodes = {place.node for place in places} | set(self.places.addresses.values())
        moved = any(place.local_rank not in (None, place.rank) for place in places)
        if self.places.live or moved or not local_rank < size <= MOST_ON_NODE or not nodes <= {"", node}:
            return None
        return self.of(local_rank, job) or RankPlace(local_rank, node or "", job)

    def spawned(self, node: str | None, number: int, file: str, job: str | None = None) -> RankPlace | None:
        """Return the rank of a torch.multiprocessing process whose index its parent logged.

        None: the rank is not certain.

        A parent numbers its processes from 0, in rank order. Parents of several nodes may write into one
        scheduler log.
        """
        known = self.places.ranks if job is None else [each for each in self.places.ranks if each.job == job]
        if not known and not (job is None and self.places.live) and not has_own_id(file):
            return RankPlace(number, node or "", job)  # no line names ranks: one parent started all of them
        here = [place for place in self._file.get(file, []) if place.job == job]
        ranks = sorted({place.rank for place in here if place.node in ("", node)})
        if not ranks or len(ranks) < len({place.rank for place in here}) or has_own_id(file):
            return None
        whole = ranks[-1] - ranks[0] == len(ranks) - 1
        first = 0 if ranks[0] == 0 else ranks[0] if whole and number < len(ranks) else None
        return None if first is None else self.of(first + number, job) or RankPlace(first + number, "", job)

    def of_file(self, node: str | None, file: str, job: str | None = None) -> RankPlace | None:
        """Return the only rank that writes a file on this node, else the only one that writes it elsewhere.

        None if none or several do.
        """
        found = self._file.get(file, [])
        return _only([place for place in found if place.node == node] or found, job)

    def reach(self, node: str | None, file: str | None) -> Reach:
        """Return which jobs may write a file of unknown job: those of its node, all (`fleet`), or `none`."""
        return self.places.loose.get((node or "", file or ""), "node")

    def running(self, at: float | None, node: str | None = None) -> set[str]:
        """Return the jobs that ran at a time (unix seconds; None: all known jobs), on a node or anywhere.

        A single known job always counts.
        """
        jobs = self.jobs if node is None else {place.job for place in self.on(node)} - {None}
        if len(jobs) < 2 or at is None:
            return {job for job in jobs if job is not None}
        return {
            job
            for job in jobs
            if job is not None and self._ran[job][0] - STARTED_S <= at <= self._ran[job][1] + LAST_WORDS_S
        }

    def may_have(self, job: str | None, rank: int | None) -> bool:
        """Return True if a job can have a rank of this number; also if number or job size is unknown."""
        return rank is None or rank < self.sizes.get(job, rank + 1)

    def gpu(self, node: str | None, uuid: str | None, bus: str | None) -> int | None:
        """Return the index of a GPU from its UUID or PCI address; None: unknown."""
        for name in (uuid, None if bus is None else bus_key(bus)):
            for home in (node, None if self.places.live else ""):  # a table of an ended job may name no node
                if home is not None and name is not None and (home, name) in self._gpus:
                    return self._gpus[home, name]
        return None

    def on(self, node: str | None, job: str | None = None, at: float | None = None) -> list[RankPlace]:
        """Return the ranks of a node.

        With `job` only those of the job or of unknown job; with `at` (unix seconds) only those alive then.
        """
        found = self._node.get(node, []) if node is not None else []
        found = found if at is None else [place for place in found if lived(place, at)]
        return found if job is None else [place for place in found if place.job in (None, job)]

    def named(self, host: object) -> str | None:
        """Return the node of an address or host name, with or without domain or port; None: unknown."""
        text = str(host).strip("[]<> ")
        for name in (text, text.partition("<")[0], text.partition(":")[0], text.partition(".")[0]):
            for spelling in (name, name.lower()):
                if spelling in self._names:
                    return self._names[spelling]
        return None

    def node_named(self, host: object) -> str | None:
        """Return the node that a log names, or None.

        In logs of an ended job any valid host name is a node.
        """
        known = self.named(host)
        return known if known is not None or self.places.live else shell_command.value("node", host)

    def ranks(self, job: str | None) -> list[RankPlace]:
        """Return the ranks of one job (and those of no known job), or all ranks for None."""
        return [place for place in self.places.ranks if job is None or place.job in (None, job)]

    @property
    def reads_logs(self) -> bool:
        """Return True if the log files of any rank are known."""
        return bool(self._file)

    def world(self, job: str | None) -> set[int]:
        """Return all rank numbers of a job: the known ones, and those below its announced size."""
        known = {place.rank for place in self.places.ranks if place.job in (None, job)}
        return known | _first_ranks(self.size(job))

    def may_be_rank(self, rank: int | None, job: str | None) -> bool:
        """Return True if the number is below the job's announced number of ranks, or if that is unknown."""
        size = self.size(job)
        return rank is None or size == 0 or rank < size

    def size(self, job: str | None) -> int:
        """Return the announced number of ranks of a job; 0: unknown, or above `MAX_WORLD`."""
        size = self.sizes.get(job, 0) or (0 if self.jobs else self.sizes.get(None, 0))
        return size if size <= MAX_WORLD else 0


@lru_cache(maxsize=16)
def _first_ranks(count: int) -> frozenset[int]:
    """Return ranks 0 to `count` - 1; cached, so that incidents share the set of a large world."""
    return frozenset(range(count))


def lived(place: RankPlace, at: float | None) -> bool:
    """Return True if a rank ran at a time (unix seconds), or had just ended; also if the time is None."""
    if at is None:
        return True
    if place.since is not None:
        begun = place.since - STARTED_S <= at
    else:
        begun = place.pid is not None or place.until is None or place.until - UNKNOWN_START_S <= at
    return begun and (place.until is None or at <= place.until + LAST_WORDS_S)


def started_anew(place: RankPlace, at: float) -> bool:
    """Return True if the process of a rank that ran at `at` (unix seconds) was replaced since."""
    return place.since is not None and place.started is not None and place.since <= at < place.started


@lru_cache(4096)
def bus_key(address: str) -> str:
    """Return a PCI address without its function, normalized: `0000:0f:00`."""
    parts = address.lower().split(".")[0].split(":")
    domain = parts[0][-4:] if len(parts) > 2 else "0000"
    return ":".join((domain.rjust(4, "0"), *(part.rjust(2, "0") for part in parts[-2:])))


def _only(found: Iterable[RankPlace], job: str | None, *, ended: bool = False) -> RankPlace | None:
    """Return the unambiguous match among the running ranks if there are any, else among all; else None.

    `ended`: search all ranks, not first the running ones.
    """
    named = [place for place in found if job is None or place.job is None or place.job == job]
    named = [place for place in named if ended or place.until is None] or named
    return named[0] if len({(place.job, place.rank, place.node) for place in named}) == 1 else None


def _names(known: dict[str, str]) -> dict[str, str]:
    """Return name or address -> node, also in lower case (host names are case-insensitive).

    A name that is ambiguous in lower case is found only in its exact spelling.
    """
    small: dict[str, set[str]] = defaultdict(set)
    for name, node in known.items():
        small[name.lower()].add(node)
    return {name: min(nodes) for name, nodes in small.items() if len(nodes) == 1} | known


def _times(ranks: Iterable[RankPlace]) -> dict[str | None, tuple[float, float]]:
    """Return job -> start and end (unix seconds); minus or plus infinity if any of its ranks lacks it."""
    found: dict[str | None, tuple[float, float]] = {}
    for place in ranks:
        since = -math.inf if place.since is None else place.since
        until = math.inf if place.until is None else place.until
        begin, end = found.get(place.job, (since, until))
        found[place.job] = min(begin, since), max(end, until)
    return found
