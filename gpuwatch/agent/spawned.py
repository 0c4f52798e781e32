"""Ranks that their own program numbers: mp.spawn, and others that set RANK after they have started.

Their environment names no rank. The processes that one parent started and that take part in torch.distributed
(by their threads' names, or spawned and on a GPU) are one group. Which rank each is, tells the path of its
log, or an argument of its command; else its place in the order of their starts, which is only a guess.
"""

import os
import re

from .base.path_ranks import ranks_of_path
from .procfs import names, read_text
from .ranks import MAX_RANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable  # noqa: F401 - used in type comments

THREADS = ("gloo", "pt_gloo", "pt_nccl", "pt_tcpstore", "NCCL", "nccl")
"""How threads of torch.distributed and NCCL begin; a data loader's worker has none."""
MAX_THREADS = 256
SPAWNED = "spawn_main"
"""Of multiprocessing's command line."""
_ARGUMENT = re.compile(r"(?:^|\s)--?(?:global[-_])?rank[ =](\d{1,6})(?=\s|$)")


class Sibling(object):
    """A process without a rank; `start` in clock ticks since boot, `logs`: the files that it writes."""

    __slots__ = ("command", "logs", "parent", "pid", "start")

    def __init__(self, pid, parent, start, command, logs):
        # type: (int, int, int, str, list[str]) -> None
        self.pid = pid
        self.parent = parent
        self.start = start
        self.command = command
        self.logs = logs


def is_distributed(proc, pid):
    # type: (str, int) -> bool
    """Whether a process has threads that only torch.distributed or NCCL starts."""
    folder = os.path.join(proc, str(pid), "task")
    tasks = names(folder)[:MAX_THREADS]
    return any(
        (read_text(os.path.join(folder, name, "comm"), 64) or "").startswith(THREADS) for name in tasks
    )


def ranks(siblings, on_gpu, distributed):
    # type: (Iterable[Sibling], set[int], Callable[[int], bool]) -> dict[int, dict[str, object]]
    """Pid -> `rank`, `local_rank`, `world_size`, `launcher` and `rank_source` as in `wire.Process`.

    `on_gpu`: pids that hold a GPU. `distributed`: as `is_distributed`, asked of processes with siblings.
    """
    groups = {}  # type: dict[int, list[Sibling]]
    for one in siblings:
        if one.parent > 1 and one.parent not in on_gpu:
            groups.setdefault(one.parent, []).append(one)
    found = {}  # type: dict[int, dict[str, object]]
    for parent, group in groups.items():
        if len(group) < 2:
            continue
        members = [
            one for one in group if (SPAWNED in one.command and one.pid in on_gpu) or distributed(one.pid)
        ]
        if len(members) < 2:
            continue
        numbers, source = _numbers(members)
        for one in members:
            rank = numbers[one.pid]
            found[one.pid] = {
                "rank": rank,
                "local_rank": rank,
                "world_size": max(len(members), max(numbers.values()) + 1),
                "launcher": parent,
                "rank_source": source,
            }
    return found


def _numbers(members):
    # type: (list[Sibling]) -> tuple[dict[int, int], str]
    """Pid -> rank, and what tells it: path, command or order."""
    for source, read in (("path", _of_path), ("command", _of_command)):
        told = {one.pid: read(one) for one in members}
        numbers = {pid: rank for pid, rank in told.items() if rank is not None and rank < MAX_RANKS}
        if len(numbers) == len(members) == len(set(numbers.values())):
            return numbers, source
    ordered = sorted(members, key=lambda one: (one.start, one.pid))
    return {one.pid: rank for rank, one in enumerate(ordered)}, "order"


def _of_path(one):
    # type: (Sibling) -> int | None
    ranks_told = {rank for rank, _ in map(ranks_of_path, one.logs) if rank is not None}
    return ranks_told.pop() if len(ranks_told) == 1 else None


def _of_command(one):
    # type: (Sibling) -> int | None
    found = _ARGUMENT.search(one.command)
    return int(found.group(1)) if found else None
