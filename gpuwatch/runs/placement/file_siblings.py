"""Numbers files whose paths differ in numbers only: `2.log` of `0.log` to `7.log`, `n1/l2.err`. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gpuwatch.runs.placement.learned_tags.numbering import NODE_WORD, counts_other
from gpuwatch.runs.placement.learned_tags.pairs import LOCAL_WORD, ranks_of_pairs
from gpuwatch.runs.placement.owners import hosts_in

_NUMBER = re.compile(r"[0-9]+")
_MAX_DIGITS = 5


def sibling_numbers(files: Sequence[str]) -> Iterator[tuple[str, dict[str, int], bool]]:
    """Yield (form of the path, file -> number, is of hosts) for files that one number of their paths counts.

    The numbers are those from 0 to the number of files less one. Where a number of a node and one of a
    process on it differ, both together count. `is of hosts`: the number may be part of a host name.
    """
    forms: dict[str, list[str]] = defaultdict(list)
    for file in files:
        forms[_NUMBER.sub("\0", file)].append(file)  # no path has this character
    for form, alike in forms.items():
        found = {file: list(_NUMBER.finditer(file)) for file in alike}
        differing = [
            at
            for at in range(len(found[alike[0]]))
            if len({numbers[at].group() for numbers in found.values()}) > 1
            and all(len(numbers[at].group()) <= _MAX_DIGITS for numbers in found.values())
        ]
        whole = [at for at in differing if _counts(alike, found, at)]
        if len(whole) == 1:
            numbers_of = {file: int(numbers[whole[0]].group()) for file, numbers in found.items()}
            yield form, numbers_of, _is_in_host(alike[0], found[alike[0]][whole[0]])
        elif len(differing) == 2:
            yield from ((*each, False) for each in _of_pairs(form, found, *differing))


def in_blocks(numbers: Mapping[str, int]) -> bool:
    """Return True if another number of the paths splits `numbers` (file -> number) in equal runs.

    So a scheduler distributes the processes of a job over nodes: `vit.9911.4.gn05.out`.
    """
    places = [_NUMBER.findall(file) for file in numbers]
    if len({len(each) for each in places}) != 1:
        return False
    for at in range(len(places[0])):
        blocks: dict[str, set[int]] = defaultdict(set)
        for each, number in zip(places, numbers.values(), strict=True):
            blocks[each[at]].add(number)
        sizes = {len(block) for block in blocks.values()}
        runs = all(max(block) - min(block) + 1 == len(block) for block in blocks.values())
        if runs and len(sizes) == 1 and 1 < len(blocks) < len(numbers):
            return True
    return False


def _counts(files: Sequence[str], found: dict[str, list[re.Match[str]]], at: int) -> bool:
    """Return True if the numbers at a place are those from 0 to the number of files less one.

    Words before the number must not state that it counts something else.
    """
    words = files[0][: found[files[0]][at].start()].rpartition("/")[2]
    numbers = {int(found[file][at].group()) for file in files}
    return numbers == set(range(len(files))) and not counts_other(words)


def _is_in_host(file: str, number: re.Match[str]) -> bool:
    """Return True if a number of a path is in a word that may be a host name."""
    begin = file.rfind("/", 0, number.start()) + 1
    part = file[begin:].partition("/")[0]
    return any(
        part.find(host) <= number.start() - begin < part.find(host) + len(host) for host in hosts_in(part)
    )


def _of_pairs(
    form: str, found: dict[str, list[re.Match[str]]], node: int, local: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield (form, file -> rank) once if the files are numbered by node and process without gaps."""
    pairs = {file: (int(each[node].group()), int(each[local].group())) for file, each in found.items()}
    file, numbers = next(iter(found.items()))
    words = NODE_WORD.search(file[: numbers[node].start()]), LOCAL_WORD.search(file[: numbers[local].start()])
    different = set(pairs.values())
    ranks = ranks_of_pairs(different, set())
    if all(words) and len(different) == len(pairs) and ranks:
        yield form, {file: ranks[f"{a}/{b}"] for file, (a, b) in pairs.items()}
