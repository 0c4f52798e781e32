"""Determines where every rank of an ended job ran, from the lines and paths of its logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.runs.model.clues import NCCL_LINE, POD, SOURCES, Clue
from gpuwatch.runs.placement.file_nodes import (
    FileOwner,
    files_of_nodes,
    foreign_hosts,
    nodes_of_files,
)
from gpuwatch.runs.placement.joins.join import Joins, addresses_of_gpus, children_of, pids_named
from gpuwatch.runs.placement.learned_tags.introductions import WORD
from gpuwatch.runs.placement.owners import stem
from gpuwatch.shell_command import value

NO_JOINS = Joins()
_PID = re.compile(r"(?<![0-9])[1-9][0-9]{3,6}(?![0-9])")
"""Matches a number in a file's name that may be a pid."""
ALLOCATED = "the order of the job's hosts"


@dataclass
class _Rank:
    """The facts about one rank while the clues are joined."""

    node: str | None = None
    gpu: int | None = None
    bus_id: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    logs: list[str] = field(default_factory=list)
    children: set[int] = field(default_factory=set)
    how: str = ""

    def take(self, clue: Clue, node: str | None) -> None:
        """Add those facts of a clue that no more reliable clue has given; none of one about another node."""
        if self.node is None and node is not None:
            self.node, self.how = node, clue.how
        elif self.node is not None and node is not None and node != self.node:
            return
        self.gpu = clue.gpu if self.gpu is None else self.gpu
        self.bus_id = self.bus_id or clue.bus_id
        self.pid = self.pid or clue.pid
        self.local_rank = clue.local_rank if self.local_rank is None else self.local_rank


class RankMap(Struct, frozen=True):
    """The places of the ranks, and file -> node, as far as known."""

    places: Places
    nodes: Mapping[str, str]


def rank_map(
    owners: Sequence[FileOwner],
    clues: Sequence[Clue],
    joined: Joins = NO_JOINS,
    allocated: Mapping[int, str] | None = None,
) -> RankMap:
    """Return where each rank ran, from log lines and file paths; lines take precedence.

    Args:
        owners: The facts of each file's path.
        clues: The facts of lines.
        joined: What any file states about processes, for names and children of the ranks.
        allocated: Rank -> host by the order of the job's hosts, for ranks whose node nothing else shows.
    """
    clues = of_the_whole_job([replace(clue, host=value("node", clue.host)) for clue in clues])
    addresses = addresses_of(clues)
    nodes = nodes_of_files(owners, clues, addresses)
    ranks: defaultdict[int, _Rank] = defaultdict(_Rank)
    apart = files_of_nodes(clues)
    own_paths = {(owner.file, owner.rank) for owner in owners}
    is_foreign = foreign_hosts(owners)
    for clue in sorted(clues, key=lambda clue: SOURCES.index(clue.how)):
        if clue.rank is not None:
            host = node_named(clue.host, addresses)
            if host is not None and (clue.file, clue.rank) in own_paths and is_foreign(clue.file, host):
                host = nodes.get(clue.file)
            if host is None and (clue.local_rank is not None or clue.file in apart):
                host = nodes.get(clue.file)
            ranks[clue.rank].take(clue, host)
    give_pids(ranks, clues, addresses, nodes)
    own = own_ranks(owners, clues)
    for own_rank in own.values():
        ranks.setdefault(own_rank, _Rank())
    names = {**names_of_files(own), **joined.names}
    give_listed(ranks, joined.processes)
    give_family(ranks, joined, names, own)
    give_gpus(ranks, joined, nodes)
    world = max((clue.world for clue in clues if clue.world is not None), default=None)
    names = without_hosts(names, ranks, {*nodes.values(), *addresses, *addresses.values()}, world)
    for owner in owners:
        rank = own.get(owner.file)
        if rank is not None:
            known = ranks[rank]
            known.logs.append(owner.file)
            known.local_rank = owner.local_rank if known.local_rank is None else known.local_rank
            if known.node is None:
                known.node, known.how = nodes.get(owner.file), "file name"
    give_allocated(ranks, allocated or {}, addresses)
    for file, rank in own.items():
        if file not in nodes and ranks[rank].node:
            nodes[file] = ranks[rank].node or ""
    places = tuple(place(rank, known, world) for rank, known in sorted(ranks.items()))
    gpus = addresses_of_gpus(joined, nodes)
    return RankMap(Places(places, addresses, gpus, world=world, names=names), nodes)


def node_named(host: str | None, addresses: Mapping[str, str]) -> str | None:
    """Return the node that a name means: of a pod, of an address, or its own."""
    return None if host is None else addresses.get(host) or addresses.get(POD + host, host)


def give_listed(ranks: defaultdict[int, _Rank], processes: Mapping[int, int]) -> None:
    """Add the ranks that process tables list by their pids, if they are those from 0 on and no others.

    `processes`: pid -> rank.
    """
    listed = {rank: pid for pid, rank in processes.items()}
    whole = len(listed) == len(processes) > 1 and set(listed) == set(range(len(listed)))
    if whole and ranks.keys() <= listed.keys():
        for rank, pid in listed.items():
            ranks[rank].pid = ranks[rank].pid or pid


def give_allocated(
    ranks: defaultdict[int, _Rank], allocated: Mapping[int, str], addresses: Mapping[str, str]
) -> None:
    """Add the nodes of ranks by the order of the job's hosts, where nothing else shows them."""
    for rank, host in allocated.items():
        if ranks[rank].node is None:
            ranks[rank].node, ranks[rank].how = addresses.get(host, host), ALLOCATED


def give_pids(
    ranks: Mapping[int, _Rank], clues: Iterable[Clue], addresses: Mapping[str, str], nodes: Mapping[str, str]
) -> None:
    """Add pids that lines give for local ranks, where they are unambiguous on the node."""
    for clue in clues:
        if clue.rank is not None or clue.pid is None or clue.local_rank is None:
            continue
        host = nodes.get(clue.file) if clue.host is None else addresses.get(clue.host, clue.host)
        same = [each for each in ranks.values() if each.local_rank == clue.local_rank and each.node == host]
        if len(same) == 1 and same[0].pid is None:
            same[0].pid = clue.pid


def give_family(
    ranks: Mapping[int, _Rank], joined: Joins, names: Mapping[str, int], own: Mapping[str, int]
) -> None:
    """Add the pids by which other lines and the names of its files call a rank, and those of what it started.

    `own`: file -> the rank that writes it.
    """
    for pid, of in {**pids_in_files(own), **pids_named(names)}.items():
        if of in ranks and ranks[of].pid != pid:
            ranks[of].children.add(pid)
    pids: dict[int, list[int]] = defaultdict(list)
    for rank, known in ranks.items():
        for pid in known.children if known.pid is None else {known.pid, *known.children}:
            pids[pid].append(rank)
    for rank, children in children_of(joined, pids).items():
        ranks[rank].children |= children


def pids_in_files(own: Mapping[str, int]) -> dict[int, int]:
    """Return pid -> rank for numbers of pids in the names of the ranks' files: `train.77112.log`.

    All names have equally many numbers, and those at a place all differ; else there are no such pids.
    """
    numbers = {file: _PID.findall(PurePath(file).name) for file in own}
    if len(own) < 2 or len({len(each) for each in numbers.values()}) != 1:
        return {}
    found: dict[int, int] = {}
    for column in zip(*numbers.values(), strict=True):
        if len(set(column)) == len(column):
            found.update(zip(map(int, column), own.values(), strict=True))
    return found


def give_gpus(ranks: Mapping[int, _Rank], joined: Joins, nodes: Mapping[str, str]) -> None:
    """Add the GPUs that tables list beside the pids of the ranks."""
    owners: dict[int, set[int]] = defaultdict(set)
    for rank, known in ranks.items():
        for pid in known.children if known.pid is None else {known.pid, *known.children}:
            owners[pid].add(rank)
    for file, table in joined.gpus.items():
        node = nodes.get(file)
        for pid, gpu in table.processes.items():
            here = [rank for rank in owners.get(pid, ()) if node in (None, ranks[rank].node or node)]
            if len(here) == 1 and ranks[here[0]].gpu is None:
                ranks[here[0]].gpu = gpu


def names_of_files(own: Mapping[str, int]) -> dict[str, int]:
    """Return name -> rank for the names of the ranks' own files, and for the words in them and their folders.

    Names that several ranks share are left out.
    """
    found: dict[str, set[int]] = defaultdict(set)
    for file, rank in own.items():
        for name in _names_in(file):
            found[name].add(rank)
    return {name: next(iter(ranks)) for name, ranks in found.items() if len(ranks) == 1}


def _names_in(file: str) -> Iterator[str]:
    """Yield the names by which lines of other files may call the writer of a file."""
    yield stem(file)
    for part in PurePath(file).parts[-2:]:
        yield from WORD.findall(part)


def without_hosts(
    names: Mapping[str, int], ranks: Mapping[int, _Rank], hosts: AbstractSet[str], world: int | None
) -> dict[str, int]:
    """Return name -> rank without names of hosts, unless each rank is known to run on a host of its own.

    A pod is a host of one rank, unless the job has more ranks than pods (and a launcher's).
    """
    nodes = {known.node for known in ranks.values() if known.node}
    if len(nodes) == len(ranks) > 1 and world in (None, len(ranks)) and set(ranks) == set(range(len(ranks))):
        return dict(names)
    pods = {host.removeprefix(POD) for host in hosts if host.startswith(POD)}
    pods = pods if world is None or world <= len(pods) + 1 else set()
    others = (nodes | hosts) - pods
    return {name: rank for name, rank in names.items() if name not in others}


def place(rank: int, known: _Rank, world: int | None) -> RankPlace:
    """Return one rank as a `RankPlace` for the diagnosis."""
    return RankPlace(
        rank,
        known.node or "",
        gpu=known.gpu,
        bus_id=known.bus_id,
        pid=known.pid,
        local_rank=known.local_rank,
        world_size=world,
        logs=tuple(known.logs),
        children=tuple(sorted(known.children)),
        how=known.how or "file name",
    )


def of_the_whole_job(clues: Sequence[Clue]) -> list[Clue]:
    """Return the clues without those of smaller process groups: NCCL numbers each group's members from 0."""
    world = max((clue.world for clue in clues if clue.world is not None), default=None)
    return [clue for clue in clues if clue.world is None or clue.world == world]


def addresses_of(clues: Iterable[Clue]) -> dict[str, str]:
    """Return address -> node from lines that name both, and one name per host with and without domain."""
    known: dict[str, str] = {}
    hosts: set[str] = set()
    for clue in clues:
        if clue.host is not None:
            hosts.add(clue.host)
            if clue.address is not None:
                known[clue.address] = clue.host
    for host in sorted(hosts, key=len):
        short = host.partition(".")[0]
        if short != host and not short.isdecimal():
            known[host if short in hosts else short] = short if short in hosts else host
    return known


def own_ranks(owners: Sequence[FileOwner], clues: Iterable[Clue]) -> dict[str, int]:
    """Return file -> its rank: by its path, by its NCCL lines, or by torchrun's folders."""
    spoken: dict[str, set[int]] = defaultdict(set)
    local: dict[tuple[str, int], set[int]] = defaultdict(set)
    for clue in clues:
        if clue.how == NCCL_LINE and clue.rank is not None:
            spoken[clue.file].add(clue.rank)
    for owner in owners:
        if owner.local_rank is not None:
            local[owner.group, owner.local_rank] |= spoken.get(owner.file, set())
    own: dict[str, int] = {}
    alone = len({owner.group for owner in owners if owner.local_rank is not None}) == 1
    alone = alone and len(own_world(clues)) <= len(local)
    for owner in owners:
        stated = local[owner.group, owner.local_rank] if owner.local_rank is not None else set()
        if owner.rank is not None:
            own[owner.file] = owner.rank
        elif len(stated) == 1:
            own[owner.file] = next(iter(stated))
        elif owner.local_rank is not None and alone and not stated:
            own[owner.file] = owner.local_rank
    return own


def own_world(clues: Iterable[Clue]) -> range:
    """Return all rank numbers, if a line states how many there are; else an empty range."""
    return range(max((clue.world for clue in clues if clue.world is not None), default=0))
