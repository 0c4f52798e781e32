"""Determines the rank of each log file, and the meaning of numbers in lines, from all lines of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuwatch.runs.model.clues import OWN_LINE, Clue
from gpuwatch.runs.placement.census_clues import (
    clues_of_hosts,
    clues_of_launchers,
    clues_of_openings,
    clues_of_own_hosts,
    clues_of_pods,
    clues_of_processes,
    clues_of_tasks,
    ranks_counted_by,
    refute_numbers_of_hosts,
    several_on_a_node,
    worlds_of_tags,
)
from gpuwatch.runs.placement.file_nodes import FileOwner
from gpuwatch.runs.placement.file_ranks import own_ranks_of
from gpuwatch.runs.placement.rank_facts import Census
from gpuwatch.runs.steps.step_series import StepSeries

RANK_AT_END = re.compile(r"(?:(?:^|[-_.])r|^[wp])([0-9]+)$")
"""Matches a rank at the end of a name."""
_TAG = re.compile(r"(?i)(?:rank|rk?)[-_]?([0-9]{1,6})$")
TASK = "task"
"""The word for the label of `srun -l`: each number is a separate process, whether a rank or not."""


def with_census(
    owners: Sequence[FileOwner],
    clues: Sequence[Clue],
    found: Census,
    banners: Mapping[str, int] | None = None,
) -> tuple[list[FileOwner], list[Clue], frozenset[str]]:
    """Return the owners and clues with what sample lines show about ranks, and the words that count ranks.

    `banners`: file -> the rank that its process states once, for files whose lines name none.
    """
    found.worlds.update(*worlds_of_tags(found))
    refute_numbers_of_hosts(found)
    words = ranks_counted_by(found)
    if several_on_a_node(found) and clues_of_tasks(found, words):
        words |= {TASK}
    more = [
        *clues_of_processes(found, words),
        *clues_of_tasks(found, words),
        *clues_of_hosts(found, words),
        *clues_of_own_hosts(found),
        *clues_of_launchers(found),
        *clues_of_openings(found),
        *clues_of_pods(found),
        *sorted(found.pods, key=lambda clue: (clue.address or "", clue.host or "")),
        *sorted(found.spawned, key=lambda clue: (clue.file, clue.host or "", clue.pid or 0)),
    ]
    if found.announced is not None and all(clue.world is None for clue in clues):
        more.append(Clue("", OWN_LINE, world=found.announced))
    own = own_ranks_of(found, [owner.file for owner in owners], words)
    own = {**(banners or {}), **own}
    tagged = {file: next(iter(ranks)) for file, ranks in found.ranks.items() if len(ranks) == 1}
    every = [without_own_tag(clue) for clue in (*clues, *more)]
    return [with_rank(owner, own, tagged) for owner in owners], every, words


def without_own_tag(clue: Clue) -> Clue:
    """Return the clue without a host that is only a tag of its rank: `r5` of rank 5."""
    return replace(clue, host=None) if clue.host is not None and is_tag(clue.host, clue.rank) else clue


def is_tag(host: str, rank: int | None) -> bool:
    """Return True if a word that may be a host is only a form of a rank."""
    tag = _TAG.match(host)
    return tag is not None and int(tag[1]) == rank


def merged(parts: Iterable[Census]) -> Census:
    """Return the censuses of all files merged, in file order."""
    whole = Census()
    for part in parts:
        for name in Census.__struct_fields__:
            mine, theirs = getattr(whole, name), getattr(part, name)
            if isinstance(theirs, bool):
                setattr(whole, name, mine or theirs)
            elif isinstance(theirs, set):
                mine |= theirs
            else:
                for key, value in theirs.items():
                    if isinstance(value, set):
                        mine[key] |= value  # in place: a copy per file would take quadratic time
                    else:
                        mine[key] = _joined(mine, key, value)
    return whole


def _joined(counts: dict[object, object], key: object, value: object) -> object:
    """Return the sum of two numbers; for other values the later one."""
    known = counts.get(key, 0)
    return known + value if isinstance(value, int) and isinstance(known, int) else value


def of_ranks(series: Sequence[StepSeries], words: frozenset[str]) -> tuple[StepSeries, ...]:
    """Return the series of a file by rank.

    A number after one of `words` is the rank; a number after another word is ignored.
    """
    found: dict[tuple[object, ...], StepSeries] = {}
    for each in series:
        rank = each.rank
        if rank is None and each.index_of in words:
            rank = each.index
        own = each.index if each.index_of == TASK else None
        key = (rank, each.local_rank, each.host, own if rank is None else None)
        if key in found:
            found[key].merge(each)
        else:
            found[key] = replace(each, rank=rank)
    return tuple(found.values())


def with_rank(owner: FileOwner, own: Mapping[str, int], tagged: Mapping[str, int]) -> FileOwner:
    """Return the owner with the rank that its lines name, if its path names none.

    A host that is only a form of that rank (`r5` of rank 5) is removed. This also applies if only some lines
    have that rank as a tag (`tagged`) and the others may be of other ranks.
    """
    rank = own.get(owner.file) if owner.rank is None else owner.rank
    named = tagged.get(owner.file) if rank is None else rank
    hosts = (_without_rank(host, named) for host in owner.hosts)
    return replace(owner, rank=rank, hosts=tuple(dict.fromkeys(host for host in hosts if host)))


def _without_rank(host: str, rank: int | None) -> str:
    found = None if rank is None else RANK_AT_END.search(host)
    is_own = found is not None and found[1] in {"0" * zeros + str(rank) for zeros in range(5)}
    return host[: found.start()] if found is not None and is_own else host
