"""Where every rank of a live fleet runs, by its processes, GPUs and addresses."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from gpuwatch.fleet.jobs.contested_ranks import (
    contested_ranks,
    ended_rivals,
    is_contradicted,
    still_contested,
)
from gpuwatch.fleet.jobs.ended_files import is_ended
from gpuwatch.fleet.jobs.ended_places import Began, Ranks, ended_ranks
from gpuwatch.fleet.jobs.job_files import is_of_others, outputs
from gpuwatch.fleet.jobs.places import KEPT_CHILDREN, Places, RankPlace, Reach
from gpuwatch.fleet.jobs.slurm_tasks import jobs_of_tasks
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.whole_number import RANK_DIGITS, whole_number
from gpuwatch.wire import LOCALHOST, Process

Loose: TypeAlias = dict[tuple[str, str], Reach]
Tasks: TypeAlias = Mapping[str, Mapping[int, str | None]]
"""Job -> task -> the host that `srun` reports for it."""
Hosts: TypeAlias = Mapping[str, Mapping[int, str]]
"""Job -> rank -> the host that the job's logs state for it."""
MOVED_S = 60.0
"""Maximum delay in seconds until the end of a process is seen, across the lists and clocks of two nodes."""
CLOCKS_S = 60.0
"""Maximum difference in seconds between the clocks of a node and of the file server."""
BY_SRUN = "line of srun"
"""`RankPlace.how` of the ranks that are Slurm tasks whose node `srun` reports."""
KEPT_ENDED = 2_048
"""Number of recently ended ranks kept for one node: jobs on CPUs start and end all the time."""


def places_of(
    nodes: Collection[Node],
    before: Places | None = None,
    wall: float | None = None,
    logged: Mapping[tuple[str, str], Collection[int]] | None = None,
    tasks: Tasks | None = None,
    began: Began | None = None,
) -> Places:
    """Return the places of all ranks: those that nodes report now, and ended ones from `before`.

    A rank that two nodes claim has two places: `RankIndex` then returns neither. An ended rank keeps its
    place until a rank of another job uses its GPU.

    Args:
        nodes: Of the fleet.
        before: The previous result.
        wall: Unix seconds now.
        logged: (node, log file of an ended job) -> the ranks whose steps it contains.
        tasks: The Slurm tasks that are ranks, by the jobs' logs.
        began: (node, log file of an ended job) -> when its first step was logged (unix seconds).
    """
    earlier = () if before is None else before.ranks
    ranks, rivals = _claims(nodes, earlier, logged or {}, wall, began or {})
    contested = contested_ranks(nodes) | still_contested(before, ranks)
    addresses = _addresses(nodes, ranks)
    for ended in _task_places(nodes, tasks or {}, addresses):
        known = ranks.setdefault((ended.job, ended.rank), ended)
        if not known.node:  # its lines are in a log of several ranks
            ranks[ended.job, ended.rank] = replace(known, node=ended.node)
    gpus = {
        (node.name, name): gpu.info.index
        for node in nodes
        for gpu in node.gpus.values()
        for name in (gpu.info.uuid, gpu.info.bus_id)
        if name is not None
    }
    if before is not None:
        valid = [each for each in earlier if each.how != BY_SRUN or each.job in (tasks or {})]
        _keep_ended(ranks, [*valid, *_left(nodes)], wall)
        addresses, gpus = {**before.addresses, **addresses}, {**before.gpus, **gpus}
    return Places(
        (*ranks.values(), *rivals, *ended_rivals(earlier, ranks, rivals, contested, wall)),
        addresses,
        gpus,
        _loose(nodes, ranks.values(), None if before is None else before.loose),
        live=True,
        contested=contested,
        kernel_logs=frozenset(
            node.name for node in nodes if node.hello is not None and node.hello.kernel_log
        ),
        outputs=outputs(nodes),
        task_jobs=jobs_of_tasks(nodes) | (tasks or {}).keys(),
    )


def with_hosts(places: Places, hosts: Hosts) -> Places:
    """Return the places; ended ranks are on the nodes that `hosts` states for them.

    A host outweighs the node on which the log of the rank was found: other nodes may see the file.
    """
    if not hosts:
        return places
    found = []
    for place in places.ranks:
        stated = places.addresses.get(hosts.get(place.job or "", {}).get(place.rank, ""))
        moved = stated is not None and place.pid is None and place.node != stated
        how = "the launcher's failure table"
        found.append(replace(place, node=stated, how=how) if moved else place)
    return replace(places, ranks=tuple(found))


def _claims(
    nodes: Collection[Node],
    before: Collection[RankPlace],
    logged: Mapping[tuple[str, str], Collection[int]],
    wall: float | None,
    began: Began,
) -> tuple[Ranks, list[RankPlace]]:
    """Return ((job, rank) -> its place, the places that other nodes claim for the same ranks).

    Of several nodes, the one that had the rank before wins, else the first in the plan. A node that is
    disconnected or has not sent its hello never wins over a connected one. Left out is a rank whose new place
    cannot follow its earlier one; included are the ranks that ended, where no process claims them.
    """
    known = {(place.job, place.rank): place for place in reversed(list(before))}
    listed = {(place.job, place.rank, place.node) for place in before}
    ranks: Ranks = {}
    claimed: dict[tuple[str | None, int], list[RankPlace]] = {}
    standing = {
        node.name: (node.hello is None, node.link.phase != "live" and node.hello is not None)
        for node in nodes
    }
    for node in nodes:
        for process in node.processes:
            place = _place(process, node)
            if place is not None:
                claimed.setdefault((place.job, place.rank), []).append(place)
    rivals: list[RankPlace] = []
    for key, places in claimed.items():
        earlier = known.get(key)
        best = min(standing[place.node] for place in places)
        able = [place for place in places if standing[place.node] == best]
        first = next((each for each in able if earlier is not None and each.node == earlier.node), able[0])
        is_new = (*key, first.node) not in listed
        if is_new and earlier is not None and not _may_follow(first, earlier, standing, wall):
            continue
        ranks[key] = first if earlier is None else _continued(first, earlier)
        rivals += [place for place in able if place.node != first.node]
    for key, ended in ended_ranks(nodes, logged, began).items():
        ranks.setdefault(key, ended)
    return ranks, rivals


def _continued(place: RankPlace, earlier: RankPlace) -> RankPlace:
    """Return the place of a rank, with the start and children that its earlier place recorded."""
    same = (place.node, place.pid) == (earlier.node, earlier.pid)
    children = sorted({*place.children, *earlier.children})[-KEPT_CHILDREN:] if same else place.children
    return replace(place, since=earlier.since, children=tuple(children))


def _may_follow(
    claim: RankPlace, earlier: RankPlace, standing: Mapping[str, tuple[bool, bool]], wall: float | None
) -> bool:
    """Return True if a rank may have moved to another node: it started there after it ended here.

    Also if it is not known when it ended here. A process that had started earlier would have been listed at
    the same time as the one that is gone.
    """
    if earlier.pid is None:
        return True
    answers = not any(standing.get(earlier.node, (True, True)))
    ended = earlier.until if earlier.until is not None else wall if answers else None
    return ended is None or (claim.started is not None and claim.started >= ended - MOVED_S)


def _keep_ended(ranks: Ranks, earlier: Iterable[RankPlace], wall: float | None) -> None:
    """Add the places of `earlier` that are missing from `ranks`.

    Left out: contradicted places, places of a job without ranks whose GPU another job uses, and all but the
    newest `KEPT_ENDED` of a node. `wall` (unix seconds) becomes the end of those that have none.
    """
    taken = {(place.node, place.gpu) for place in ranks.values() if place.gpu is not None}
    jobs = {place.job for place in ranks.values()}
    gone: dict[tuple[str | None, int], RankPlace] = {}
    for place in earlier:
        key = place.job, place.rank
        held = place.job not in jobs and (place.node, place.gpu) in taken
        if key not in ranks and not held and not is_contradicted(place, ranks):
            gone.setdefault(key, place if place.until is not None else replace(place, until=wall))
    kept: Counter[str] = Counter()
    for key, place in sorted(gone.items(), key=lambda each: -(each[1].until or 0.0)):
        kept[place.node] += 1
        if kept[place.node] <= KEPT_ENDED:
            ranks[key] = place


def _left(nodes: Iterable[Node]) -> Iterable[RankPlace]:
    """Yield the places of ranks that ended just now, perhaps within the time between two placements."""
    for node in nodes:
        for _, process in node.left:
            place = _place(process, node)
            if place is not None:
                yield place


def _loose(
    nodes: Collection[Node],
    ranks: Collection[RankPlace],
    before: Mapping[tuple[str, str], Reach] | None = None,
) -> Loose:
    """Return (node, file) without a known job -> which jobs the file may belong to (`Reach`).

    `none` if there are ranks and all write to other files, or started after the file was last written, or if
    only processes of no job have it open; unless a rank on another node writes it (a shared file system).
    """
    found: Loose = {}
    own = {file.identity for node in nodes for file in node.logs if file.job is not None} - {None}
    shared: set[tuple[str, str]] = set()
    silent = _silent(ranks)
    ranked = {place.node for place in ranks}
    members: dict[str, set[int | None]] = defaultdict(set)
    """Node -> the pids of its ranks, of their launchers and of what they have started."""
    for place in ranks:
        members[place.node].update((place.pid, place.launcher, *place.children))
    for node in nodes:
        for file in node.logs:
            if file.job is None and file.source != "kernel":
                reach: Reach = "node" if file.identity is None else "fleet"
                ranks_there = node.name in ranked if reach == "node" else ranked
                first = silent.get(node.name if reach == "node" else "", math.inf)
                grown = math.inf if file.grown_at is None else file.grown_at - node.offset_s + CLOCKS_S
                written = first < math.inf and first <= grown and not is_of_others(file, members[node.name])
                if file.identity in own:
                    shared.add((node.name, file.path))
                elif ranks_there and not written:
                    reach = "none"
                found[node.name, file.path] = reach
        for process in node.processes:
            if process.rank is None and process.job is None:
                found.update(((node.name, path), "none") for path in process.logs)
    # the writer of a file may have ended; it still was no rank
    for key, reach in (before or {}).items():
        if reach == "none" and key in found and key not in shared:
            found[key] = reach
    return found


def _silent(ranks: Iterable[RankPlace]) -> dict[str, float]:
    """Return node ("": any) -> when the first rank there without a log was started (unix seconds)."""
    found: dict[str, float] = {}
    for place in ranks:
        for node in () if place.logs else (place.node, ""):
            found[node] = min(place.started or 0.0, found.get(node, math.inf))
    return found


def _place(process: Process, node: Node) -> RankPlace | None:
    if process.rank is None:
        return None
    uuid = process.gpus[0].uuid if process.gpus else None
    gpu = node.gpus.get(uuid) if uuid is not None else None
    info = None if gpu is None else gpu.info
    started = None if process.start is None else process.start - node.offset_s
    size = process.variables.get("LOCAL_WORLD_SIZE", "")
    return RankPlace(
        rank=process.rank,
        node=node.name,
        job=process.job,
        gpu=None if info is None else info.index,
        gpu_uuid=uuid,
        bus_id=None if info is None else info.bus_id,
        pid=process.pid,
        inner_pid=process.inner_pid,
        launcher=process.launcher,
        children=tuple(process.children),
        local_rank=process.local_rank,
        local_size=whole_number(size, RANK_DIGITS),
        world_size=process.world_size,
        logs=tuple(process.logs),
        since=started,
        started=started,
        inferred=process.inferred,
        how=f"{process.rank_source or 'environment'} of pid {process.pid}",
    )


def _task_places(nodes: Collection[Node], tasks: Tasks, addresses: Mapping[str, str]) -> Iterable[RankPlace]:
    """Yield the places of ended jobs' ranks whose node `srun` reports."""
    ended: dict[str, float] = {}
    for node in nodes:
        for file in node.logs:
            if is_ended(file) and file.job is not None:
                last = (file.last_at or 0.0) - node.offset_s
                ended[file.job] = max(last, ended.get(file.job, last))
    for job in tasks.keys() & ended.keys():
        for task, host in tasks[job].items():
            node_name = addresses.get(host or "")
            if node_name is not None:
                yield RankPlace(
                    task, node_name, job, world_size=len(tasks[job]), until=ended[job], how=BY_SRUN
                )


def _addresses(nodes: Collection[Node], ranks: Ranks) -> dict[str, str]:
    """Return name or address -> node; names in the plan take precedence over those that agents report."""
    addresses: dict[str, str] = {}
    for node in nodes:
        _name(addresses, node, node.name, node.spec.address)
    for node in nodes:
        _name(addresses, node, node.own_host)
    for name, owned in _owners(nodes).items():
        for address in owned:
            addresses.setdefault(address, name)
    _masters(ranks, nodes, addresses)
    return addresses


def _name(addresses: dict[str, str], node: Node, *names: str | None) -> None:
    """Store a node's names, with and without domain; a name that another node already has is not changed."""
    for name in names:
        if name:
            addresses.setdefault(name, node.name)
            if not name.replace(".", "").isdecimal():
                addresses.setdefault(name.partition(".")[0], node.name)


def _owners(nodes: Collection[Node]) -> dict[str, list[str]]:
    """Return node -> the IP addresses that only this node has; a bridge may have one address on all nodes."""
    seen: dict[str, set[str]] = {}
    for node in nodes:
        for address in [] if node.hello is None else node.hello.addresses:
            seen.setdefault(address, set()).add(node.name)
    owners: dict[str, list[str]] = {}
    for address, names in seen.items():
        if len(names) == 1:
            owners.setdefault(min(names), []).append(address)
    return owners


def _masters(ranks: Ranks, nodes: Collection[Node], addresses: dict[str, str]) -> None:
    """Store each job's rendezvous address, unless it is a loopback or known, as one of its rank 0's node."""
    for node in nodes:
        for process in node.processes:
            if process.master is None:
                continue
            zero = ranks.get((process.job, 0))
            host = process.master.rpartition(":")[0].strip("[]") or process.master
            if zero is not None and host not in LOCALHOST:
                addresses.setdefault(host, zero.node)
