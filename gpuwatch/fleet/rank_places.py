"""Where every rank of a live fleet runs, from its processes, GPUs and addresses."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.fleet.node import Node
from gpuwatch.fleet.places import Places, RankPlace
from gpuwatch.wire import Process


def places_of(nodes: Iterable[Node], before: Places | None = None) -> Places:
    """All that the nodes tell now, and what `before` knew of ranks that have ended meanwhile.

    A job without an id of its own is known by its rendezvous address. A rank that is gone keeps its place
    until another job's rank is seen on its GPU.
    """
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
                ranks.setdefault((place.job, place.rank), place)
    _masters(ranks, nodes, addresses)
    if before is None:
        return Places(tuple(ranks.values()), addresses, gpus)
    taken = {(place.node, place.gpu) for place in ranks.values() if place.gpu is not None}
    jobs = {place.job for place in ranks.values()}
    for place in before.ranks:
        if (place.job, place.rank) not in ranks and (
            place.job in jobs or (place.node, place.gpu) not in taken
        ):
            ranks[place.job, place.rank] = place
    return Places(tuple(ranks.values()), {**before.addresses, **addresses}, {**before.gpus, **gpus})


def _place(process: Process, node: Node) -> RankPlace | None:
    if process.rank is None:
        return None
    uuid = process.gpus[0].uuid if process.gpus else None
    gpu = node.gpus.get(uuid) if uuid is not None else None
    info = None if gpu is None else gpu.info
    return RankPlace(
        rank=process.rank,
        node=node.name,
        job=process.job or process.master,
        gpu=None if info is None else info.index,
        gpu_uuid=uuid,
        bus_id=None if info is None else info.bus_id,
        pid=process.pid,
        local_rank=process.local_rank,
        world_size=process.world_size,
        logs=tuple(process.logs),
        how=f"environment of pid {process.pid}",
    )


def _addresses(node: Node, addresses: dict[str, str]) -> None:
    """The names that a node goes by."""
    names = [node.name, node.spec.address, None if node.hello is None else node.hello.host]
    for name in names:
        if name:
            addresses.setdefault(name, node.name)
            if not name.replace(".", "").isdigit():
                addresses.setdefault(name.partition(".")[0], node.name)


def _owners(nodes: Iterable[Node]) -> dict[str, list[str]]:
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
    ranks: dict[tuple[str | None, int], RankPlace], nodes: Iterable[Node], addresses: dict[str, str]
) -> None:
    """The rendezvous address of a job is that of the node where its rank 0 runs."""
    for node in nodes:
        for process in node.processes:
            if process.master is None:
                continue
            zero = ranks.get((process.job or process.master, 0))
            host = process.master.rpartition(":")[0].strip("[]") or process.master
            if zero is not None and host not in ("localhost", "127.0.0.1", "::1"):
                addresses.setdefault(host, zero.node)
