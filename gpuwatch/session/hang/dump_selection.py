"""Selects for each rank the dump to fetch from the nodes' lists, or the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from gpuwatch.diagnose.model.rank_index import MAX_WORLD
from gpuwatch.number_text import duration, plural
from gpuwatch.session.hang.dump_transfer import DumpFileTransfer
from gpuwatch.wire import DumpFile, DumpPlace, DumpPlaces

Key: TypeAlias = tuple[str, int]
"""Node, pid."""
File: TypeAlias = tuple[str, str]
"""Node, path."""
NONE_LEFT = "no dump"
NOWHERE = "no dump, and it runs on no node"
NOT_ASKED = "it runs on no node that was asked"


class RankTarget(Struct, frozen=True):
    """A rank, its job and world size."""

    rank: int
    job: str | None
    world: int | None


class DumpTargets(Struct):
    """The ranks of one job whose dumps are fetched, and those without a dump."""

    job: str | None
    world: int
    """World size; 0: unknown."""
    transfers: dict[int, DumpFileTransfer] = field(default_factory=dict)
    none: dict[int, str] = field(default_factory=dict)
    """Rank -> why it left no dump; the rank itself may be the reason."""
    unread: dict[int, str] = field(default_factory=dict)
    """Rank -> why the dump, which may exist, cannot be fetched."""


class Listed(Struct, frozen=True):
    """The dump lists of all nodes: the input of `chosen`."""

    targets: Mapping[Key, RankTarget]
    places: Mapping[str, DumpPlaces]
    """Node -> its list."""
    silent: Mapping[str, str]
    """Node -> why the node sent no list of dumps."""
    whole: bool
    """True if every node of the session was queried and its processes are known."""
    at: float
    """Time of the lists, unix seconds on our clock."""
    only: Collection[File] | None = None
    """Dumps to consider; None: all."""
    refused: Mapping[Key, str] = field(default_factory=dict)
    """Process -> why no fresh dump could be requested from it."""
    late: str = ""
    """Why a rank has none of the requested fresh dumps: the reason for all such ranks."""


def chosen(listed: Listed) -> list[DumpTargets]:
    """Return, for each job, the largest first, the dump of each rank to fetch, or why there is none.

    A dump on the rank's own node is preferred, then the newest.
    """
    jobs: dict[str | None, dict[int, Key]] = {}
    for key, target in sorted(listed.targets.items()):
        jobs.setdefault(target.job, {}).setdefault(target.rank, key)
    cases = [_case(job, ranks, listed) for job, ranks in jobs.items()]
    return sorted(cases, key=lambda case: -len(jobs[case.job]))


def _case(job: str | None, ranks: Mapping[int, Key], listed: Listed) -> DumpTargets:
    case = DumpTargets(
        job, min(MAX_WORLD, max((listed.targets[key].world or 0 for key in ranks.values()), default=0))
    )
    found: dict[int, tuple[bool, float, str, DumpPlace, DumpFile]] = {}
    for node, reported in listed.places.items():
        for place in reported.places:
            if {listed.targets[node, pid].job for pid in place.pids if (node, pid) in listed.targets} != {
                job
            }:
                continue
            for file in place.files:
                if listed.only is not None and (node, place.prefix + file.name) not in listed.only:
                    continue
                if case.world and file.rank >= case.world:
                    continue
                own = file.rank in ranks and ranks[file.rank][0] == node
                best = found.get(file.rank)
                if best is None or (own, -file.age_s) > best[:2]:
                    found[file.rank] = (own, -file.age_s, node, place, file)
    for rank, (_, _, node, place, file) in sorted(found.items(), key=lambda item: item[0]):
        case.transfers[rank] = _transfer(job, node, place, file, listed.at)
    for rank in range(case.world) if case.world else sorted(ranks):
        if rank not in case.transfers:
            _explain(case, rank, ranks.get(rank), listed)
    return case


def _transfer(job: str | None, node: str, place: DumpPlace, file: DumpFile, at: float) -> DumpFileTransfer:
    return DumpFileTransfer(
        job=job,
        rank=file.rank,
        node=node,
        pid=place.pids[0],
        prefix=place.prefix,
        name=file.name,
        size=file.size_bytes,
        mtime=file.mtime,
        at=at - file.age_s,
    )


def _explain(case: DumpTargets, rank: int, key: Key | None, listed: Listed) -> None:
    """Record why there is no dump of this rank: it left none, or its node could not be searched."""
    if key is None:
        if listed.whole and not listed.silent:
            case.none[rank] = NOWHERE
        else:
            case.unread[rank] = NOT_ASKED
        return
    node, pid = key
    reported = listed.places.get(node)
    if reported is None:
        case.unread[rank] = f"{node}: {listed.silent.get(node, 'no answer')}"
        return
    if key in listed.refused:
        case.unread[rank] = listed.refused[key]
        return
    if pid in reported.unread:
        case.unread[rank] = f"{node}: the path of its dumps cannot be read"
        return
    places = [place for place in reported.places if pid in place.pids]
    shared = next((p for p in places if p.files and len(_jobs(node, p, listed)) > 1), None)
    trouble = next((place for place in places if place.error or place.left_out), None)
    if shared is not None:
        jobs = _jobs(node, shared, listed)
        named = [
            *(f"job {job}" for job in sorted(filter(None, jobs))),
            *["a job without an id"] * (None in jobs),
        ]
        writers = f"{', '.join(named[:-1])} and {named[-1]}"
        case.unread[rank] = f"{writers} write their dumps to {shared.prefix}: the job of each dump is unknown"
    elif trouble is not None:
        why = trouble.error or f"{plural(trouble.left_out, 'file')} over the limit of files that are listed"
        case.unread[rank] = f"{node}: {trouble.prefix}: {why}"
    elif listed.only is not None:
        case.unread[rank] = listed.late  # the rank may only be slow: no dump shows nothing
    else:
        case.none[rank] = NONE_LEFT + _before(places)


def _jobs(node: str, place: DumpPlace, listed: Listed) -> set[str | None]:
    return {listed.targets[node, pid].job for pid in place.pids if (node, pid) in listed.targets}


def _before(places: list[DumpPlace]) -> str:
    """Return a remark that older dumps exist and were not used; empty if there are no older dumps."""
    older = sum(place.older for place in places)
    if not older:
        return ""
    age = min(place.older_age_s for place in places if place.older_age_s is not None)
    return f" of this run, only older ones ({duration(age)} old)"
