"""Finds names of processes (pids, pods, hosts, tags) that lines or tables state beside ranks. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from gpuwatch.agent.logs.lines.rank_words import OTHER_COUNTS, RANK_NAMED
from gpuwatch.agent.ranks.rank_environment import is_rank
from gpuwatch.runs.placement.learned_tags.slots import TAG_END, any_level

WORD = re.compile(r"(?=[\w.-]{0,80}[0-9-])[A-Za-z0-9][\w.-]{0,80}\w")
"""A word with a digit or hyphen: a possible name of a process."""
GROUP = re.compile(r"[\[(<{](?=[^\[\](){}<>]{0,60}[0-9])[^\[\](){}<>]{1,60}[\])>}]")
"""What stands in brackets, which may name a process as a whole: `[node 1 / gpu 2]`."""
MAX_CHARS = 300
MAX_BANNERS = 160
"""First lines of a file in which processes introduce themselves."""
MAX_NAMES = 1 << 14
MAX_ROWS = 4_096
_HEADING = re.compile(r"(?i)^[^0-9]{0,120}\brank\b[^0-9]{0,120}$")
_NODE_TAG = re.compile(r"\((?:head|worker\d{1,4}), rank=\d")
"""SkyPilot's tag, whose rank is that of a node."""
_WORDS = re.compile(r"[A-Za-z_][A-Za-z_. -]*?(?=\s{0,40}(?:[|,;\t:]|\s{2}|\s|$))")
_CELLS = re.compile(r"[^\s|,;=]+")
_ROW = re.compile(r"^\W{0,8}(?P<n>[0-9]{1,6})\s{0,8}[:=|,;\t -]>?\s{0,8}(?P<name>[\w.-]{2,80})\W{0,4}$")


def names_of_ranks(files: Mapping[str, Sequence[str]], token: re.Pattern[str]) -> dict[str, int]:
    """Return name -> rank for the names that lines state beside one rank each, always the same one."""
    stated: dict[str, set[int]] = defaultdict(set)
    for lines in files.values():
        forms: dict[tuple[object, ...], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for form, name, rank in (*_in_lines(lines, token), *_in_tables(lines)):
            forms[form][name].add(rank)
        for names in forms.values():
            for name, rank in _one_each(names):
                stated[name].add(rank)
    return {name: next(iter(ranks)) for name, ranks in stated.items() if len(ranks) == 1}


def _one_each(names: Mapping[str, set[int]]) -> Iterator[tuple[str, int]]:
    """Yield the names and ranks if several names have one rank each, no two the same; else nothing."""
    ranks = [next(iter(each)) for each in names.values() if len(each) == 1]
    if 1 < len(ranks) == len(names) == len(set(ranks)) <= MAX_NAMES:
        yield from zip(names, ranks, strict=True)


def _in_lines(lines: Iterable[str], token: re.Pattern[str]) -> Iterator[tuple[tuple[object, ...], str, int]]:
    """Yield (form of the line and place, name, rank) for the names in lines that name one rank."""
    for line in islice(lines, MAX_BANNERS):
        text = line[:MAX_CHARS]
        if ("ank" not in text and "ANK" not in text) or _NODE_TAG.match(text) is not None:
            continue
        named = [
            each for each in RANK_NAMED.finditer(text) if each["rank"] is not None and _is_global(each, text)
        ]
        if len(named) != 1 or not is_rank(int(named[0]["n"])):
            continue
        begin, end = named[0].span("n")
        form = token.sub("\0", text[:begin]) + "\1" + token.sub("\0", text[end:])
        for place, found in enumerate(token.finditer(text)):
            if not (found.start() < end and begin < found.end()):
                yield (form, place), found.group(), int(named[0]["n"])


def _is_global(named: re.Match[str], text: str) -> bool:
    return OTHER_COUNTS.search(text[max(0, named.start() - 40) : named.start()]) is None


def _in_tables(lines: Sequence[str]) -> Iterator[tuple[tuple[object, ...], str, int]]:
    """Yield (table and column, name, rank) for the rows below a heading with a column of ranks."""
    for at, line in enumerate(lines):
        if "rank" not in line.lower() or _HEADING.match(line[:MAX_CHARS].strip()) is None:
            continue
        heading = [word.strip().lower() for word in re.findall(r"[A-Za-z_]+", line)]
        column = next(
            (n for n, word in enumerate(heading) if word in ("rank", "global_rank", "world_rank")), None
        )
        for row in lines[at + 1 : at + 1 + MAX_ROWS]:
            cells, pair = _CELLS.findall(row[:MAX_CHARS]), _ROW.match(row[:MAX_CHARS])
            if pair is not None and column == 0:
                yield (at, "pair"), pair["name"], int(pair["n"])
            elif column is not None and len(cells) == len(heading) and cells[column].isdecimal():
                for place, cell in enumerate(cells):
                    if place != column and len(cell) > 1:
                        yield (at, place), cell, int(cells[column])
            elif row.strip(" -+|="):
                break


def named_tags(
    files: Mapping[str, Sequence[str]], names: Mapping[str, int], token: re.Pattern[str]
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield (pattern, name -> rank) of tags that contain one of `names` (name of a process -> its rank).

    Nearly all lines of this form must have a known name there. They must be more than the names, and more
    than a third of all lines.
    """
    if not names:
        return
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    hits: dict[tuple[str, str], int] = defaultdict(int)
    misses: dict[tuple[str, str], int] = defaultdict(int)
    for lines in files.values():
        for line in lines:
            text, before, at = line[:200], "", 0
            for count, found in enumerate(token.finditer(text)):
                if count > 8:
                    break
                before += any_level(text[at : found.start()])
                at = found.end()
                key = (before, text[at : at + 1])
                if found.group() in names:
                    hits[key] += 1
                    known[key].add(found.group())
                else:
                    misses[key] += 1
                before += token.pattern
    total = sum(len(lines) for lines in files.values())
    for key, count in sorted(hits.items(), key=lambda each: -each[1]):
        ranks = {name: names[name] for name in known[key]}
        several = count > len(ranks)  # one line each is a list of the names
        if several and len(ranks) > 1 and count * 3 > total and misses[key] * 20 < count:
            close = re.escape(key[1]) if key[1] else "$"
            word = token.pattern
            yield f"{key[0]}({word})(?={close}){TAG_END}", ranks
