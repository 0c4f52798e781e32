"""Where the ranks of ended jobs ran, by their log files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from gpuwatch.fleet.jobs.ended_files import is_ended, run_of
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import LogFile

Ranks: TypeAlias = dict[tuple[str | None, int], RankPlace]
"""(job, rank) -> its place."""
Logged: TypeAlias = Mapping[tuple[str, str], Collection[int]]
"""(node, log file of an ended job) -> the ranks that wrote lines into it."""
Began: TypeAlias = Mapping[tuple[str, str], float]
"""(node, log file of an ended job) -> when its first step was logged, unix seconds on our clock."""
STARTUP_S = 30.0
"""Seconds before its first step within which a rank has started: imports, rendezvous, the first batch."""
_STANDALONE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The random run id of `torchrun --standalone`: a job on one node, whose local ranks are its ranks."""


def ended_ranks(nodes: Collection[Node], logged: Logged, began: Began | None = None) -> Ranks:
    """Return (job, rank) -> place of the ranks whose logs were found after the end of their job.

    A log that several nodes see does not show on which of them its rank ran. Neither does a log of several
    ranks: launchers collect the output of ranks on all nodes. Such a rank has the node "".
    """
    found: Ranks = {}
    lowest = _first_on_node(nodes, logged)
    for node in nodes:
        for place in _own_places(node, logged, lowest):
            key = place.job, place.rank
            ended = _since(place, node, began or {})
            known = found.setdefault(key, ended)
            if known.node not in ("", node.name) and set(known.logs) & set(ended.logs):
                found[key] = replace(known, node="")
    for node in nodes:
        for ended in _shared_places(node, logged):
            found.setdefault((ended.job, ended.rank), _since(ended, node, began or {}))
    return found


def _since(place: RankPlace, node: Node, began: Began) -> RankPlace:
    """Return a place whose `since` is shortly before its first step; unchanged if that is not dated."""
    first = [began[node.name, file] for file in place.logs if (node.name, file) in began]
    return replace(place, since=min(first) - STARTUP_S) if first else place


def _first_on_node(nodes: Iterable[Node], logged: Logged) -> dict[tuple[str | None, str], int]:
    """Return (ended job, node) -> its lowest rank, which has the local rank 0.

    Only jobs whose nodes have equally many consecutive ranks, by the ranks with logs of their own, are
    included.
    """
    own: dict[str | None, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for node in nodes:
        for file in node.logs:
            ranks = _ranks(node, [file], logged) if is_ended(file) else set()
            if is_ended(file):
                own[file.job][node.name] |= ranks if len(ranks) == 1 and file.identity is None else set()
    found: dict[tuple[str | None, str], int] = {}
    for job, there in own.items():
        whole = sorted(rank for ranks in there.values() for rank in ranks)
        each = {(len(ranks), max(ranks) - min(ranks) + 1) for ranks in there.values() if ranks}
        sizes = {size for size, span in each if size == span}
        if whole == list(range(len(whole))) and len(each) == len(sizes) == 1 and all(there.values()):
            found.update(((job, name), min(ranks)) for name, ranks in there.items())
    return found


def _own_places(
    node: Node, logged: Logged, lowest: Mapping[tuple[str | None, str], int]
) -> Iterable[RankPlace]:
    """Yield the places of ranks that have log files of their own.

    The files in one rank's folder are all from that rank: torchrun writes stdout.log and stderr.log there.
    """
    folders: dict[tuple[str | None, str], list[LogFile]] = defaultdict(list)
    for file in node.logs:
        if is_ended(file):
            run, _ = run_of(file.path)
            folders[file.job, file.path.rpartition("/")[0] if run else file.path].append(file)
    own = {key: _ranks(node, files, logged) for key, files in folders.items()}
    first = _first_ranks(folders, own)
    here: dict[str | None, set[int]] = defaultdict(set)
    for (job, _), ranks in own.items():
        here[job] |= ranks
    found: dict[tuple[str | None, int], list[LogFile]] = defaultdict(list)
    for key, files in folders.items():
        ranks, run = own[key], run_of(files[0].path)[0]
        local = _local_rank(files)
        if not ranks and run in first and local is not None:
            ranks = {first[run] + local}
        if not ranks and local is not None and (key[0], node.name) in lowest:
            ranks = {lowest[key[0], node.name] + local} & here[key[0]]
        if len(ranks) == 1:
            found[key[0], ranks.pop()].extend(files)
    for (job, rank), files in found.items():
        private = all(file.identity is None for file in files)
        yield _place(rank, node.name if private else "", job, node, files)


def _first_ranks(
    folders: Mapping[tuple[str | None, str], list[LogFile]], own: Mapping[tuple[str | None, str], set[int]]
) -> dict[str, int]:
    """Return torchrun run folder -> the global rank of local rank 0.

    Folders for which neither lines nor the run id show it are left out. torchrun numbers the ranks of
    an agent in the order of their local ranks.
    """
    stated: dict[str, set[int]] = defaultdict(set)
    for key, files in folders.items():
        run, name = run_of(files[0].path)
        local, ranks = _local_rank(files), own[key]
        if run and local is not None and len(ranks) == 1:
            stated[run].add(next(iter(ranks)) - local)
        elif run and name is not None and _STANDALONE.fullmatch(name):
            stated[run].add(0)
    return {run: first for run, (first, *others) in stated.items() if not others and first >= 0}


def _shared_places(node: Node, logged: Logged) -> Iterable[RankPlace]:
    """Yield the places of ranks that logged into files of several ranks."""
    for file in node.logs:
        ranks = _ranks(node, [file], logged) if is_ended(file) else set()
        if len(ranks) > 1:
            for rank in sorted(ranks):
                yield _place(rank, "", file.job, node, [file])


def _ranks(node: Node, files: Iterable[LogFile], logged: Logged) -> set[int]:
    return {rank for file in files for rank in (*file.ranks, *logged.get((node.name, file.path), ()))}


def _local_rank(files: Iterable[LogFile]) -> int | None:
    locals_ = {file.local_rank for file in files} - {None}
    return locals_.pop() if len(locals_) == 1 else None


def _place(rank: int, on: str, job: str | None, node: Node, files: Collection[LogFile]) -> RankPlace:
    return RankPlace(
        rank,
        on,
        job,
        local_rank=_local_rank(files),
        logs=tuple(file.path for file in files),
        until=max(file.last_at or 0.0 for file in files) - node.offset_s,
        how=f"path of {next(iter(files)).path}",
    )
