"""Whose each log file is and what each line's numbers mean, once the lines of the whole job are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuwatch.runs.clues import Clue
from gpuwatch.runs.files import LogPath
from gpuwatch.runs.rank_census import (
    census,
    clues_of_processes,
    clues_of_tasks,
    own_ranks_of,
    ranks_counted_by,
)
from gpuwatch.runs.rank_map import FileOwner
from gpuwatch.runs.record import Row
from gpuwatch.runs.samples import sampled


def with_census(
    owners: Sequence[FileOwner], clues: Sequence[Clue], logs: Sequence[LogPath], rows: Mapping[str, list[Row]]
) -> tuple[list[FileOwner], list[Clue], frozenset[str]]:
    """Add what sample lines say of the ranks, where a finding names none; and which words count ranks."""
    if all("rank" in row for found in rows.values() for row in found):
        return list(owners), list(clues), frozenset()
    found = census(sampled(logs))
    words = ranks_counted_by(found)
    own = own_ranks_of(found, [owner.file for owner in owners])
    more = [*clues_of_processes(found), *clues_of_tasks(found, words)]
    return [with_rank(owner, own) for owner in owners], [*clues, *more], words


def with_rank(owner: FileOwner, own: Mapping[str, int]) -> FileOwner:
    """The owner with the rank that its lines tell, where its path names none."""
    return owner if owner.rank is not None else replace(owner, rank=own.get(owner.file))
