"""Ranks that several nodes list at one time: what neither of them decides alone, then and later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.fleet.nodes.node import Node

Contested: TypeAlias = frozenset[tuple[str | None, int, str]]
"""Job, rank and node."""
Ranks: TypeAlias = Mapping[tuple[str | None, int], RankPlace]


def contested_ranks(nodes: Collection[Node]) -> Contested:
    """Ranks that run on several machines by their present lists; without nodes that are not connected.

    Those of nodes whose claim the other nodes of the job contradict are among them.
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
    """Those that were, of jobs that still have the rank."""
    earlier = frozenset() if before is None else before.contested
    return frozenset(each for each in earlier if each[:2] in ranks)


def ended_rivals(
    earlier: Iterable[RankPlace],
    ranks: Ranks,
    rivals: Collection[RankPlace],
    contested: Contested,
    wall: float | None,
) -> Iterator[RankPlace]:
    """The places of nodes that list a rank no more which another node lists on: it did not move there."""
    listed = {(place.job, place.rank, place.node) for place in (*ranks.values(), *rivals)}
    for place in earlier:
        key = place.job, place.rank, place.node
        is_rival = key in contested and key not in listed and place.pid is not None
        if is_rival and not is_contradicted(place, ranks):
            listed.add(key)
            yield place if place.until is not None else replace(place, until=wall)


def is_contradicted(place: RankPlace, ranks: Ranks) -> bool:
    """Whether its node lists the rank under a name of its own now: it was never one of the job."""
    return (f"{place.job}@{place.node}", place.rank) in ranks
