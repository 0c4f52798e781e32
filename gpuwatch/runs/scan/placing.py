"""Determines where the ranks of a job ran, from what is read of all files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuwatch.runs.model.clues import Clue, clues_of
from gpuwatch.runs.model.record import Row
from gpuwatch.runs.placement.file_banners import ranks_by_banner
from gpuwatch.runs.placement.file_nodes import FileOwner
from gpuwatch.runs.placement.job_ranks import TASK, merged, with_census
from gpuwatch.runs.placement.joins.allocations import allocations, ranks_in_order
from gpuwatch.runs.placement.joins.gpu_tables import GpuTable
from gpuwatch.runs.placement.joins.join import Joins, joins, nodes_by_pid
from gpuwatch.runs.placement.joins.pod_ranks import ranks_of_pytorch_job
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.placement.rank_census import census
from gpuwatch.runs.placement.rank_facts import Census
from gpuwatch.runs.placement.rank_map import RankMap, rank_map
from gpuwatch.runs.scan.reading import PartRead
from gpuwatch.runs.scan.scan_file import ScanFile, owner_of
from gpuwatch.runs.steps.step_series import joined


class FileEvidence(NamedTuple):
    """What one file shows about the places of ranks."""

    file: ScanFile
    sample: Sequence[bytes]
    """Its sample lines."""
    rows: list[Row]
    """Its findings."""


class PlacedRanks(NamedTuple):
    """Where the ranks ran, the rank of each file, and the words whose numbers are ranks."""

    known: RankMap
    ranks: dict[str, int | None]
    """File -> its rank, by its lines or else its path; None: unknown."""
    writers: frozenset[str]
    """The files that are a rank's own."""
    counted: frozenset[str]
    """The words whose numbers are ranks."""
    words: frozenset[str]
    """The same; with `TASK` if each task is a rank."""


def placed(files: Sequence[FileEvidence]) -> PlacedRanks:
    """Return where the ranks ran, by what all these files show."""
    names = [each.file.log.name for each in files]
    reads = {name: each.file.in_order() for name, each in zip(names, files, strict=True)}
    rows = {name: each.rows for name, each in zip(names, files, strict=True)}
    samples = [(name, each.sample) for name, each in zip(names, files, strict=True)]
    found = whole_census(reads, samples)
    joined = with_gpus(joins(samples), reads)
    found.pods.update(joined.pods)
    owners, clues, counted = with_census(
        [owner_of(each.file.log) for each in files],
        list(clues_in(reads, rows)),
        found,
        ranks_by_banner(samples, found),
    )
    joined = replace(joined, names={**joined.names, **ranks_of_pytorch_job(samples, found.world)})
    hosts = ranks_in_order(allocations(samples), number_of_ranks(found, owners), found.hosts)
    known = with_nodes_by_pid(rank_map(owners, clues, joined, hosts), owners, rows)
    known = replace(known, places=replace(known.places, counted=counted))
    known = with_kernel_logs(known, owners, [each.file for each in files])
    writers = {log: place.rank for place in reversed(known.places.ranks) for log in place.logs}
    of_tasks = found.tasks.keys() <= {place.rank for place in known.places.ranks}
    return PlacedRanks(
        known,
        {owner.file: writers.get(owner.file, owner.rank) for owner in owners},
        frozenset(writers),
        counted,
        counted | {TASK} if of_tasks else counted,
    )


def number_of_ranks(found: Census, owners: Sequence[FileOwner]) -> int | None:
    """Return how many ranks the job has, by lines, else by the files of all ranks from 0 on; or None."""
    stated = found.announced or max(found.worlds, default=None)
    own = {owner.rank for owner in owners if owner.rank is not None}
    return stated or (len(own) if len(own) > 1 and own == set(range(len(own))) else None)


def clues_in(reads: Mapping[str, Sequence[PartRead]], rows: Mapping[str, list[Row]]) -> Iterator[Clue]:
    """Yield what the lines of all files show about the places of ranks."""
    for name, parts in reads.items():
        for read in parts:
            yield from clues_of(name, read.clues)
        yield from clues_of(name, rows[name])


def whole_census(
    reads: Mapping[str, Sequence[PartRead]], samples: Iterable[tuple[str, Sequence[bytes]]]
) -> Census:
    """Return the census of all files, with their last steps."""
    found = merged(
        census([(name, lines)]) if (made := census_of(reads[name])) is None else made
        for name, lines in samples
    )
    found.last_steps = {name: last_step_of(parts) for name, parts in reads.items()}
    return found


def last_step_of(parts: Iterable[PartRead]) -> int:
    """Return the last step of a file of one process; -1: of several, none, or the announced last one."""
    series = joined(read.series for read in parts)
    last = max((each.points[-1].step for each in series if each.points), default=-1)
    several = len({(each.rank, each.local_rank, each.host) for each in series}) > 1
    return -1 if several or any(each.total_steps == last for each in series) else last


def census_of(reads: Iterable[PartRead]) -> Census | None:
    """Return the census of a file from the part that has it (the first); None: that part was not read."""
    return next((read.census for read in reads if read.census is not None), None)


def with_gpus(joined: Joins, reads: Mapping[str, Sequence[PartRead]]) -> Joins:
    """Return the joins with the GPUs that tool outputs of whole files list."""
    for name, parts in reads.items():
        for read in parts:
            if read.gpus:
                joined.gpus.setdefault(name, GpuTable()).addresses.update(read.gpus)
    return joined


def with_nodes_by_pid(known: RankMap, owners: Iterable[FileOwner], rows: Mapping[str, list[Row]]) -> RankMap:
    """Return the map with the nodes of kernel logs that name pids of one node's ranks."""
    names = [owner.file for owner in owners if owner.file not in known.nodes]
    kernel = [name for name in names if path_places(name).kernel]
    return replace(known, nodes={**nodes_by_pid(known.places.ranks, kernel, rows), **known.nodes})


def with_kernel_logs(known: RankMap, owners: Sequence[FileOwner], files: Sequence[ScanFile]) -> RankMap:
    """Return the rank map with the times that kernel logs cover, and the names of the job's own logs."""
    spans = []
    own = {log for place in known.places.ranks for log in place.logs}
    for file, owner in zip(files, owners, strict=True):
        reads = file.in_order()
        if path_places(file.log.inner).kernel:
            own.discard(file.log.name)
            firsts = [read.first_time for read in reads if read.first_time is not None]
            lasts = [read.last_time for read in reads if read.last_time is not None]
            if firsts and lasts:
                spans.append((known.nodes.get(file.log.name), min(firsts), max(lasts)))
        elif owner.rank is not None or owner.local_rank is not None or any(read.series for read in reads):
            own.add(file.log.name)
    return replace(known, places=replace(known.places, kernel_spans=tuple(spans), job_logs=frozenset(own)))
