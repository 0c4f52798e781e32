"""Determines the rank of each of several siblings: by its log's path, an argument, or the order of starts.

Example: one parent started pids 41, 42 and 43, which write /r/w0.log, /r/w1.log and /r/w2.log. The paths
differ only in the number, which counts from 0: ranks 0, 1, 2 by `path`. Without such logs they are numbered
by their start times, by `order` (an inferred rank).
"""

import re

from ..ranks.path_ranks import ranks_of_path
from ..ranks.rank_environment import MAX_RANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Sequence

_ARGUMENT = re.compile(r"(?:^|\s)--?(?:global[-_])?rank[ =](\d{1,6})(?=\s|$)")
_TITLE = re.compile(r"(?i)(?<![a-z])(?:global[ _-]?)?rank[ =:#_-]{0,2}(\d{1,6})(?![\d.])")
"""The rank in a process title set by the program: `train: rank 3/8`, `ray::Trainer[rank=3]`."""
_DIGITS = re.compile(r"(?<!\d)\d{1,6}(?!\d)")
MAX_NUMBERS = 16
"""Numbers of a path that are examined."""


class Sibling(object):
    """A process without a known rank; `start` in clock ticks since boot, `logs`: the files that it writes.

    `ended`: a zombie, of which only the start is known. `own_rank`, `own_gpu`: RANK and the only number in
    CUDA_VISIBLE_DEVICES of its own environment.
    """

    __slots__ = ("command", "ended", "logs", "own_gpu", "own_rank", "parent", "pid", "start")

    def __init__(
        self, pid: int, parent: int, start: int, command: str, logs: "list[str]", ended: bool = False
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.start = start
        self.command = command
        self.logs = logs
        self.ended = ended
        self.own_rank: int | None = None
        self.own_gpu: int | None = None


def numbers(members: "Sequence[Sibling]") -> "tuple[dict[int, int], str]":
    """Return (pid -> rank, source of the ranks: path, command or order) for processes of one parent.

    A member that has ended writes nothing: its rank is its place in the order of starts, if that matches the
    ranks of all others; otherwise it is left out.
    """
    living = [one for one in members if not one.ended]
    places = _places(members)
    known, source = _stated(living) or (numbered_logs(members), "path")
    if not known:
        return places, "order"
    if len(living) < len(members) and all(places[pid] == rank for pid, rank in known.items()):
        return places, source
    return known, source


def separate_numbers(members: "Sequence[Sibling]") -> "tuple[dict[int, int], str | None]":
    """Return (pid -> rank, source of the ranks) for processes that were started separately.

    The source is None if each process has its rank in its environment; else how the processes state it, or
    `order`: inferred from the number in which the names of their logs differ, from the GPU that each may use,
    or from the order of their starts.
    """
    by_environment = _distinct({one.pid: one.own_rank for one in members})
    if by_environment:
        return by_environment, None
    stated = _stated(members)
    if stated is not None:
        return stated
    gpus = _distinct({one.pid: one.own_gpu for one in members})
    by_gpu = {pid: place for place, pid in enumerate(sorted(gpus, key=gpus.__getitem__))}
    return numbered_logs(members) or by_gpu or _places(members), "order"


def _distinct(reported: "dict[int, int | None]") -> "dict[int, int]":
    """Return `reported` if every process has a number and all differ; else an empty dict."""
    known = {pid: number for pid, number in reported.items() if number is not None}
    return known if len(known) == len(reported) == len(set(known.values())) else {}


def numbered_logs(members: "Sequence[Sibling]") -> "dict[int, int]":
    """Return pid -> the number in which the paths of the processes' own logs differ; empty if they do not.

    Numbers from 1 on (`worker_1`) are no ranks, unless rank 0 has ended; nor are widely spaced ones (pids).
    """
    living = [one for one in members if not one.ended]
    places = _places(members)
    found = [dict(_forms(one.logs)) for one in living]
    for form in found[0] if found else ():
        if all(form in each for each in found):
            reported = {one.pid: each[form] for one, each in zip(living, found)}  # noqa: B905 - Python 3.6
            if len(set(reported.values())) == len(living) > 1:
                in_place = all(places[pid] == number for pid, number in reported.items())
                return reported if in_place or _from_zero(reported) else {}
    return {}


def _places(members: "Sequence[Sibling]") -> "dict[int, int]":
    """Return pid -> place (from 0) in the order of starts."""
    ordered = sorted(members, key=lambda one: (one.start, one.pid))
    return {one.pid: place for place, one in enumerate(ordered)}


def _from_zero(reported: "dict[int, int]") -> bool:
    """Return True if numbers may be ranks: close together, and not exactly 1 to their count."""
    values = sorted(reported.values())
    dense = values[-1] < 2 * len(values) + 2
    return dense and values != list(range(1, len(values) + 1))


def _forms(logs: "Sequence[str]") -> "Iterator[tuple[tuple[str, str], int]]":
    """Yield ((text before, text after), number) for the numbers in the last two parts of a path.

    The last one comes first, at most `MAX_NUMBERS` of each path.
    """
    for path in logs:
        folder = path.rfind("/", 0, max(0, path.rfind("/"))) + 1
        for found in list(_DIGITS.finditer(path, folder))[: -MAX_NUMBERS - 1 : -1]:
            yield (path[: found.start()], path[found.end() :]), int(found.group())


def _stated(living: "Sequence[Sibling]") -> "tuple[dict[int, int], str] | None":
    """Return (pid -> rank, its source) if every living member states a distinct rank; else None."""
    for source, read in (("path", _of_path), ("command", _of_command)):
        reported = {one.pid: read(one) for one in living}
        known = {pid: rank for pid, rank in reported.items() if rank is not None and rank < MAX_RANKS}
        if known and len(known) == len(living) == len(set(known.values())):
            return known, source
    return None


def _of_path(one: "Sibling") -> "int | None":
    reported_ranks = {rank for rank, _ in map(ranks_of_path, one.logs) if rank is not None}
    return reported_ranks.pop() if len(reported_ranks) == 1 else None


def _of_command(one: "Sibling") -> "int | None":
    found = _ARGUMENT.search(one.command) or _TITLE.search(one.command)
    return int(found.group(1)) if found else None
