"""Finds the rank of a file with a single writer: by its path, its banner, or its only rank. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from gpuwatch.agent.logs.lines.rank_words import RANK_NAMED, SCOPES
from gpuwatch.runs.placement.file_siblings import in_blocks, sibling_numbers
from gpuwatch.runs.placement.owners import ATTEMPT
from gpuwatch.runs.placement.rank_facts import Census

UNNAMED = BARE, HOST = "bare", "host"
"""Words of families whose numbers have none: of files, and of what may be host names."""
MAX_RANK = 1 << 16
NODE_RANKS = 8
"""Number of ranks on a usual node; a multiple of it may be the first of several ranks in one log."""


def own_ranks_of(found: Census, files: Sequence[str], words: frozenset[str] = frozenset()) -> dict[str, int]:
    """Return the rank of each single-process file, by its name, its banner, or the only rank in its lines."""
    if found.single and found.world in (None, 1) and len(found.writers) < 2:
        return dict.fromkeys(files, 0)
    own: dict[str, int] = {}
    several = {file for file, ranks in found.ranks.items() if len(ranks) > 1}
    for file, banners in found.banners.items():
        if len(banners) == 1 and file not in several:
            own[file] = next(iter(banners))
    printed = {file: next(iter(ranks)) for file, ranks in found.variables.items() if len(ranks) == 1}
    if len(printed) > 1 and len(set(printed.values())) == len(printed):
        own |= {file: rank for file, rank in printed.items() if file not in several and file not in own}
    lone = {file: next(iter(ranks)) for file, ranks in found.ranks.items() if len(ranks) == 1}
    if len(lone) > 1 and set(lone.values()) == set(range(len(lone))) and found.world == len(lone):
        own |= {file: rank for file, rank in lone.items() if file not in own}
    stated = {file: next(iter(ranks)) for file, ranks in found.openings.items() if len(ranks) == 1}
    if len(stated) > 1 and _is_run(list(stated.values())):
        own |= {file: rank for file, rank in stated.items() if file not in several and file not in own}
    if 0 in own.values() and len(files) > 1 and len(own) < 2:
        own = {}  # a shared log, in which rank 0 logs for all
    own = {**_only_speakers(found), **own}
    named = ranks_of_names(files, found)
    return {**named, **_by_index(found, words), **own}


def _only_speakers(found: Census) -> dict[str, int]:
    """Return file -> rank, for files in which only one rank logs regular work, from the first lines on.

    A tag before some lines but not before steps belongs to one rank among others. Rank 0 may log alone for
    the whole job, and a launcher's log contains the output of all ranks.
    """
    alone = {file: next(iter(ranks)) for file, ranks in found.ranks.items() if len(ranks) == 1}
    if len(alone) > 1 and not _is_run(list(alone.values())):
        alone = {}  # logs of the first process of each node
    counted = {file: next(iter(each)) for file, each in found.processes.items() if len(each) == 1}
    counted = {file: each for file, each in counted.items() if file not in found.ranks and each > 0}
    return {file: each for file, each in counted.items() if file not in found.launchers} | {
        file: rank
        for file, rank in alone.items()
        if rank > 0
        and found.openings[file] == {rank}
        and file in found.working.keys() - found.launchers
        and (found.working[file] or (file not in found.anonymous and rank % NODE_RANKS))
    }


def _is_run(ranks: Sequence[int]) -> bool:
    """Return True if the ranks are distinct and consecutive; first ranks of nodes have gaps."""
    return len(set(ranks)) == len(ranks) == max(ranks) - min(ranks) + 1


def _by_index(found: Census, words: frozenset[str]) -> dict[str, int]:
    """Return file -> rank, for files with one number after a word that counts ranks, if all are distinct."""
    lone = {
        file: next(iter(numbers))
        for (file, word), numbers in found.indexes.items()
        if word in words and len(numbers) == 1
    }
    return lone if len(lone) > 1 and len(set(lone.values())) == len(lone) else {}


def ranks_of_names(files: Sequence[str], found: Census) -> dict[str, int]:
    """Return file -> rank for zero-based paths (`worker-2.log`, `task-3/stdout`) of one process per file.

    A number without a word (`2.log`, a pod's ordinal) is a rank only if the job has as many ranks as there
    are files, one process per host, or one process in each of the job's files.
    """
    families: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for shape, numbers_of, is_of_hosts in sibling_numbers(files):
        families["", shape, HOST if is_of_hosts else BARE] = numbers_of
    for file in files:
        parts = PurePath(file).parts
        for depth, part in enumerate(parts):
            folder, below = "/".join(parts[:depth]), "/".join(parts[depth + 1 :])
            for word, number, shape in _numbers_in(part):
                families[folder, f"{shape}/{below}", word][file] = number
    _join_folders(families)
    ranks: dict[str, int] = {}
    folders = Counter((shape, word) for folder, shape, word in families if ATTEMPT.search(folder) is None)
    for (_, shape, word), members in sorted(families.items(), key=lambda each: each[0][2] not in UNNAMED):
        if folders[shape, word] > 1:
            continue  # the same names in each node's folder count the node's processes
        numbers = set(members.values())
        whole = numbers == set(range(len(members))) and len(members) > 1
        alone = all(found.ranks.get(file, set()) <= {number} for file, number in members.items())
        announced = max(found.worlds, default=None)
        apart = all(ATTEMPT.search(file) is None for file in members) and (
            found.one_process_each(members) or found.in_step(members)
        )
        unstated = word not in UNNAMED or found.one_per_host or (apart and word != HOST)
        unstated = unstated or (word == BARE and in_blocks(members))
        agrees = found.world == len(members) or (announced is None and unstated)
        stated = any(found.ranks.get(file) == {number} for file, number in members.items())
        stated = stated and word not in UNNAMED and max(numbers) < (announced or MAX_RANK)
        if word != "local" and alone and ((whole and agrees) or stated):
            ranks |= members
    return ranks


def _join_folders(families: dict[tuple[str, str, str], dict[str, int]]) -> None:
    """Merge groups of equal file names in different folders if their numbers are distinct."""
    alike: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for family in families:
        alike[family[1:]].append(family)
    for same in alike.values():
        numbers = [number for family in same for number in set(families[family].values())]
        if len(same) > 1 and len(set(numbers)) == len(numbers):
            first, *others = same
            for other in others:
                families[first] |= families.pop(other)


def _numbers_in(part: str) -> Iterator[tuple[str, int, str]]:
    """Yield (word, number, component with `#` for both) for each number that a word such as `rank` names."""
    plain = part.replace("workerlog.", "worker.").replace("_", " ").replace(".", " ")
    found = list(RANK_NAMED.finditer(plain))
    for name in found:
        word = next(each for each in SCOPES if each in name.groupdict() and name[each] is not None)
        yield word, int(name["n"]), plain[: name.start()] + "#" + plain[name.end() :]
