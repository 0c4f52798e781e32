"""Joins the number of a node and the number of a process on it to a rank. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from gpuwatch.runs.placement.learned_tags.numbered_lines import NumberedPlace
from gpuwatch.runs.placement.learned_tags.numbering import (
    NODE_WORD,
    PROCESS_WORD,
    RANK_WORD,
    counts_other,
)
from gpuwatch.runs.placement.learned_tags.slots import HeadNumber, pattern_at, value_of

LOCAL_WORD = re.compile(
    r"(?i)(?:^|[^A-Za-z])(?:local(?:[ _-]?(?:rank|id|process))?|gpu|device|dev|cuda|card|l|g|lr|default|proc"
    r"|slot)(?:[ _-]?(?:id|idx|index))?[\"']?[\s:=#._-]{0,3}\"?$"
)
"""Text before the number of a process on its node."""
_NO_WORD = re.compile(r"(?:^|[\s>|])[\[(<{]$")
_DIGITS = r"([0-9]{1,4})"
_PATH_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,4}(?![0-9])")


def pair_in(numbers: Sequence[HeadNumber], text: str) -> tuple[HeadNumber, HeadNumber] | None:
    """Return the numbers of a node and of a process on it at the head of a line; None: it has not both."""
    numbers = [number for number in numbers if number.text.isdecimal()]
    for at, node in enumerate(numbers):
        if NODE_WORD.search(text[max(0, node.begin - 40) : node.begin]):
            for local in numbers[at + 1 :]:
                if LOCAL_WORD.search(text[max(0, local.begin - 40) : local.begin]):
                    return node, local
    return None


def pattern_of_pair(node: HeadNumber, local: HeadNumber) -> str:
    """Return the pattern of a tag with both numbers as groups."""
    lead = f".{{0,200}}?{node.slot.before}" if node.slot.field else node.slot.before
    return f"(?={lead}{_DIGITS}(?![0-9]))" + pattern_at(local.slot, _DIGITS)


def ranks_of_pairs(found: Collection[tuple[int, int]], worlds: set[int]) -> dict[str, int]:
    """Return `node/local` as written -> rank, if each of several nodes from 0 on has as many processes.

    `found`: the different pairs of numbers.
    """
    nodes, locals_ = {node for node, _ in found}, {local for _, local in found}
    whole = len(found) == len(nodes) * len(locals_) and len(nodes) > 1
    if not whole or nodes != set(range(len(nodes))) or locals_ != set(range(len(locals_))):
        return {}
    if worlds and len(found) not in worlds and max(worlds) > len(locals_):
        return {}
    return {f"{node}/{local}": node * len(locals_) + local for node, local in found}


def ranks_by_file(place: NumberedPlace, worlds: set[int]) -> dict[str, dict[str, int]]:
    """Return file -> text of a local number -> rank, if the files are numbered by node from 0 on.

    Otherwise empty.
    """
    words = (LOCAL_WORD, RANK_WORD, PROCESS_WORD, _NO_WORD)
    if counts_other(place.words) or not any(word.search(place.words) for word in words):
        return {}
    files: dict[str, set[int]] = defaultdict(set)
    for text, writer in place.writers.items():
        for file in writer.texts:
            files[file].add(value_of(text))
    numbers = _numbered(sorted(files))
    pairs = {(numbers[file], local) for file in numbers for local in files[file]}
    ranks = ranks_of_pairs(pairs, worlds) if len(numbers) == len(files) else {}
    return {
        file: {text: ranks[f"{numbers[file]}/{int(text)}"] for text in place.writers if text.isdecimal()}
        for file in numbers
        if ranks
    }


def _numbered(files: Sequence[str]) -> dict[str, int]:
    """Return file -> its number, if the paths differ in one number after a word for nodes only."""
    forms = {_PATH_NUMBER.sub("\0", file) for file in files}  # no path has this character
    if len(files) < 2 or len(forms) > 1:
        return {}
    found = [list(_PATH_NUMBER.finditer(file)) for file in files]
    differing = [at for at in range(len(found[0])) if len({each[at].group() for each in found}) > 1]
    if len(differing) != 1:
        return {}
    at = differing[0]
    if not all(NODE_WORD.search(file[: each[at].start()]) for file, each in zip(files, found, strict=True)):
        return {}
    return {file: int(each[at].group()) for file, each in zip(files, found, strict=True)}
