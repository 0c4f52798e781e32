"""Where every rank of a live fleet runs, from its processes, GPUs and addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from gpuwatch.fleet.ended_files import is_ended
from gpuwatch.fleet.node import Node
from gpuwatch.fleet.places import Places, RankPlace, Reach
from gpuwatch.wire import LogFile, Process

Loose: TypeAlias = dict[tuple[str, str], Reach]


def places_of(nodes: Collection[Node], before: Places | None = None, wall: float | None = None) -> Places:
    """All that the nodes tell now, and what `before` knew of ranks that have ended meanwhile.

    A rank that is gone keeps its place until another job's rank is seen on its GPU. `wall`: unix seconds now.
    """
    known = {} if before is None else {(place.job, place.rank): place for place in before.ranks}
    ranks: dict[tuple[str | None, int], RankPlace] = {}
    addresses: dict[str, str] = {}
    gpus: dict[tuple[str, str], int] = {}
    owners = _owners(nodes)
    for node in nodes:
        _addresses(node, addresses)
        addresses.update((address, node.name) for address in owners.get(node.name, ()))
        for gpu in node.gpus.values():
            gpus[node.name, gpu.info.uuid] = gpu.info.index
            if gpu.info.bus_id is not None:
                gpus[node.name, gpu.info.bus_id] = gpu.info.index
        for process in node.processes:
            place = _place(process, node)
            if place is not None:
                earlier = known.get((place.job, place.rank))
                since = place.since if earlier is None else earlier.since
                ranks.setdefault((place.job, place.rank), replace(place, since=since))
        for file in node.logs:
            for place in _ended_places(file, node):
                ranks.setdefault((place.job, place.rank), place)
    _masters(ranks, nodes, addresses)
    if before is None:
        return Places(tuple(ranks.values()), addresses, gpus, _loose(nodes), live=True)
    taken = {(place.node, place.gpu) for place in ranks.values() if place.gpu is not None}
    jobs = {place.job for place in ranks.values()}
    for place in known.values():
        if (place.job, place.rank) not in ranks and (
            place.job in jobs or (place.node, place.gpu) not in taken
        ):
            ranks[place.job, place.rank] = place if place.until is not None else replace(place, until=wall)
    return Places(
        tuple(ranks.values()),
        {**before.addresses, **addresses},
        {**before.gpus, **gpus},
        _loose(nodes, before.loose),
        live=True,
    )


def _loose(nodes: Collection[Node], before: Mapping[tuple[str, str], Reach] | None = None) -> Loose:
    found: Loose = {}
    for node in nodes:
        for file in node.logs:
            if file.job is None and file.source != "kernel":
                found[node.name, file.path] = "node" if file.identity is None else "fleet"
        for process in node.processes:
            if process.rank is None and process.job is None:
                found.update(((node.name, path), "nobody") for path in process.logs)
    # what wrote a file may have ended: that it was no rank stays true
    for key, reach in (before or {}).items():
        if reach == "nobody" and key in found:
            found[key] = reach
    return found


def _place(process: Process, node: Node) -> RankPlace | None:
    if process.rank is None:
        return None
    uuid = process.gpus[0].uuid if process.gpus else None
    gpu = node.gpus.get(uuid) if uuid is not None else None
    info = None if gpu is None else gpu.info
    return RankPlace(
        rank=process.rank,
        node=node.name,
        job=process.job,
        gpu=None if info is None else info.index,
        gpu_uuid=uuid,
        bus_id=None if info is None else info.bus_id,
        pid=process.pid,
        local_rank=process.local_rank,
        world_size=process.world_size,
        logs=tuple(process.logs),
        since=None if process.start is None else process.start - node.offset_s,
        how=f"environment of pid {process.pid}",
    )


def _ended_places(file: LogFile, node: Node) -> Iterable[RankPlace]:
    """The ranks whose logs were found after the end of their job."""
    if is_ended(file) and len(file.ranks) == 1:
        until = None if file.last_at is None else file.last_at - node.offset_s
        how = f"path of {file.path}"
        yield RankPlace(file.ranks[0], node.name, file.job, logs=(file.path,), until=until, how=how)


def _addresses(node: Node, addresses: dict[str, str]) -> None:
    """The names that a node goes by."""
    names = [node.name, node.spec.address, None if node.hello is None else node.hello.host]
    for name in names:
        if name:
            addresses.setdefault(name, node.name)
            if not name.replace(".", "").isdigit():
                addresses.setdefault(name.partition(".")[0], node.name)


def _owners(nodes: Collection[Node]) -> dict[str, list[str]]:
    """The IP addresses of each node that no other one has: a bridge may be the same on all of them."""
    seen: dict[str, set[str]] = {}
    for node in nodes:
        for address in [] if node.hello is None else node.hello.addresses:
            seen.setdefault(address, set()).add(node.name)
    owners: dict[str, list[str]] = {}
    for address, names in seen.items():
        if len(names) == 1:
            owners.setdefault(min(names), []).append(address)
    return owners


def _masters(
    ranks: dict[tuple[str | None, int], RankPlace], nodes: Collection[Node], addresses: dict[str, str]
) -> None:
    """The rendezvous address of a job is that of the node where its rank 0 runs."""
    for node in nodes:
        for process in node.processes:
            if process.master is None:
                continue
            zero = ranks.get((process.job, 0))
            host = process.master.rpartition(":")[0].strip("[]") or process.master
            if zero is not None and host not in ("localhost", "127.0.0.1", "::1"):
                addresses.setdefault(host, zero.node)
