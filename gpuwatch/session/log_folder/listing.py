"""Lists files that are not read yet, with what their paths show."""

from __future__ import annotations

from msgspec.structs import replace

from gpuwatch.runs.files.files import Gathered
from gpuwatch.runs.model.containment import from_sound
from gpuwatch.runs.placement.rank_map import rank_map
from gpuwatch.runs.scan.result import LogScan, Scan
from gpuwatch.runs.scan.scan_file import owner_of


def listing(found: Gathered) -> Scan:
    """Return a scan with the files as their paths describe them, without any findings."""
    known, _ = from_sound(lambda logs: rank_map([owner_of(log) for log in logs], []), found.files)
    ranks = {log: place.rank for place in known.places.ranks for log in place.logs}
    files = tuple(
        LogScan(
            log.name,
            log.path,
            log.size,
            log.packing,
            known.nodes.get(log.name),
            ranks.get(log.name),
            attempt=None,
            kernel=False,
            findings=0,
            trouble=None,
            mtime=log.mtime,
            last_time=log.dated,
        )
        for log in found.files
    )
    return Scan((), known.places, files, tuple(found.skipped), 0, "agent")


def with_unread(scan: Scan, found: Gathered) -> Scan:
    """Return the scan plus the files that it has not read; where both know a rank, the scan counts."""
    listed = listing(found)
    read = {file.name: file for file in scan.files}
    known = {place.rank for place in scan.places.ranks}
    ranks = [*scan.places.ranks, *(place for place in listed.places.ranks if place.rank not in known)]
    return replace(
        scan,
        files=tuple(read.get(file.name, file) for file in listed.files),
        places=replace(scan.places, ranks=tuple(sorted(ranks, key=lambda place: place.rank))),
    )
