"""Finds the ranks of a scan without log content: their logs are empty or missing. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.runs.scan.result import Scan

MAX_LISTED = 1_024
"""Maximum number of ranks listed in JSON."""


def ranks_with_empty_logs(scan: Scan) -> tuple[int, ...]:
    """Return the ranks whose logs are all empty: they printed nothing, or never started."""
    written = {file.rank for file in scan.files if file.size}
    empty = {file.rank for file in scan.files if not file.size}
    return tuple(sorted(rank for rank in empty - written if rank is not None))


def ranks_without_log(scan: Scan) -> tuple[int, ...]:
    """Return the ranks below the world size without a log.

    Empty if logs of unknown rank may be theirs, or no log has a known rank.
    """
    owned = {place.rank for place in scan.places.ranks if place.logs}
    owned |= {file.rank for file in scan.files if file.rank is not None}
    owned |= {each.rank for file in scan.files for each in file.series if each.rank is not None}
    world = max((place.world_size or 0 for place in scan.places.ranks), default=0)
    loose = [file for file in scan.files if file.rank is None and not file.kernel]
    missing = tuple(rank for rank in range(world) if rank not in owned)
    may_be_theirs = len(loose) >= len(missing) or any(file.series for file in loose)
    return () if not owned or may_be_theirs else missing


def silent_rank_parts(scan: Scan) -> Iterator[str]:
    """Yield clauses: `rank 1 has an empty log`, `no log of ranks 2-3`."""
    empty, missing = ranks_with_empty_logs(scan), ranks_without_log(scan)
    if empty:
        yield f"{ranks_text(empty)} {'has an empty log' if len(empty) == 1 else 'have empty logs'}"
    if missing:
        yield f"no log of {ranks_text(missing)}"
