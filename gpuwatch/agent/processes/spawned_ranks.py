"""Finds ranks numbered by their own program: mp.spawn, and others that set RANK after the start.

Their environment names no rank. Processes that one parent started form a group if they take part in
torch.distributed (by their threads' names, or spawned and on a GPU), or have loaded a training library and
write own logs that differ in one number. Processes that were each started from a shell of their own form one
if one user runs the same command in them, apart from numbers, with logs in the same folder, and they take
part in torch.distributed or state a rank. `sibling_numbers` determines the rank of each.
"""

import os
import re
from collections import Counter

from ..base.procfs import names, read_bytes, read_text
from ..ranks.rank_arguments import stated_group
from .sibling_numbers import numbered_logs, numbers, separate_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Hashable, Iterable, Mapping, Sequence

    from .sibling_numbers import Sibling

THREADS = ("gloo", "pt_gloo", "pt_nccl", "pt_tcpstore", "NCCL", "nccl")
"""Prefixes of thread names of torch.distributed and NCCL; data-loader workers have none."""
MAX_THREADS = 256
PROGRAMS = ("python", "pt_", "ray::")
"""Prefixes of names of training processes; Ray appends the actor's class."""
SPAWNED = "spawn_main"
"""The function in the command line of a process that Python's multiprocessing has spawned."""
LIBRARIES = (b"/libtorch", b"/jaxlib/", b"/libtensorflow", b"/libpaddle", b"/libmindspore")
"""Path parts of libraries that a training process has mapped."""
MAX_MAPS = 8 << 20
_NUMBER = re.compile(r"\d+")


class SpawnGroups(object):
    """Assigns ranks to processes that their program numbers itself; ranks stay while members end."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[int, dict[str, object]]] = {}
        """Parent, or key of `separate`, -> pid -> its assignment."""

    def __contains__(self, pid: object) -> bool:
        """Return True if a process was assigned a rank."""
        return any(pid in group for group in self._known.values())

    def ranks(
        self,
        siblings: "Iterable[Sibling]",
        on_gpu: "set[int]",
        distributed: "Callable[[int], bool]",
        trains: "Callable[[int], bool]",
    ) -> "dict[int, dict[str, object]]":
        # noqa: E501 - a type comment is one line
        """Return pid -> `rank`, `local_rank`, `world_size`, `launcher`, `rank_source` as in `wire.Process`.

        `on_gpu`: pids that use a GPU. `distributed`, `trains`: as `is_distributed` and `has_library`, called
        for processes with siblings.
        """
        groups: dict[Hashable, list[Sibling]] = {}
        for one in siblings:
            if one.parent > 1 and one.parent not in on_gpu:
                groups.setdefault(one.parent, []).append(one)
        given: dict[Hashable, dict[int, dict[str, object]]] = {
            parent: _given(_members(group, on_gpu, distributed, trains), group[0].parent)
            for parent, group in groups.items()
        }
        return self._assigned(groups, given)

    def separate(
        self,
        processes: "Iterable[tuple[str | None, Sibling]]",
        distributed: "Callable[[int], bool]",
        trains: "Callable[[int], bool]",
    ) -> "dict[int, dict[str, object]]":
        """Return pid -> the same facts as `ranks`, without `launcher`, for processes started separately.

        `processes`: (user, process).
        """
        groups: dict[Hashable, list[Sibling]] = {}
        for user, one in processes:
            folder = os.path.dirname(one.logs[0]) if one.logs else ""
            key = user, _NUMBER.sub("#", one.command), _NUMBER.sub("#", folder)
            groups.setdefault(key, []).append(one)
        given: dict[Hashable, dict[int, dict[str, object]]] = {
            key: _given(_separate(group, distributed, trains)) for key, group in groups.items()
        }
        return self._assigned(groups, given)

    def _assigned(
        self,
        groups: "Mapping[Hashable, list[Sibling]]",
        given: "Mapping[Hashable, dict[int, dict[str, object]]]",
    ) -> "dict[int, dict[str, object]]":
        self._known = {key: self._known[key] for key in groups if key in self._known}
        found: dict[int, dict[str, object]] = {}
        for key, group in groups.items():
            kept = self._kept(key, group, given[key])
            if kept:
                self._known[key] = kept
                found.update(kept)
        return found

    def _kept(
        self, key: "Hashable", group: "list[Sibling]", given: "dict[int, dict[str, object]]"
    ) -> "dict[int, dict[str, object]]":
        """Return pid -> the assigned facts of each rank of a group, `given` or as before.

        Ranks stay, unless evidence better than the order now gives others.
        """
        before = self._known.get(key, {})
        stated = any(one["rank_source"] != "order" for one in given.values())
        guessed = any(one["rank_source"] == "order" for one in before.values())
        kept = {} if stated and guessed else {one.pid: before[one.pid] for one in group if one.pid in before}
        taken = {one["rank"] for one in kept.values()}
        for pid, facts in given.items():
            if facts["rank"] not in taken:
                kept.setdefault(pid, facts)
        sizes = [one["world_size"] for one in list(given.values()) + list(before.values())]
        world = max(sizes) if sizes else 0  # type: ignore[type-var]  # world sizes are numbers in a table of mixed values
        return {pid: dict(facts, world_size=world) for pid, facts in kept.items()}


def may_be_program(name: str) -> bool:
    """Return True if a process may be a rank by its name, or by a title that states the rank."""
    return name.startswith(PROGRAMS) or "rank" in name.lower()


def is_distributed(proc: str, pid: int) -> bool:
    """Return True if a process has threads that only torch.distributed or NCCL starts."""
    folder = os.path.join(proc, str(pid), "task")
    tasks = names(folder)[:MAX_THREADS]
    return any(
        (read_text(os.path.join(folder, name, "comm"), 64) or "").startswith(THREADS) for name in tasks
    )


def has_library(proc: str, pid: int) -> bool:
    """Return True if a process has loaded a training library."""
    maps = read_bytes(os.path.join(proc, str(pid), "maps"), MAX_MAPS) or b""
    return any(name in maps for name in LIBRARIES)


def _members(
    group: "list[Sibling]",
    on_gpu: "set[int]",
    distributed: "Callable[[int], bool]",
    trains: "Callable[[int], bool]",
) -> "list[Sibling]":
    """Return the ranks among the processes of one parent, including ended ones."""
    living, ended = [one for one in group if not one.ended], [one for one in group if one.ended]
    members = [
        one for one in living if (SPAWNED in one.command and one.pid in on_gpu) or distributed(one.pid)
    ]
    if len(members) < 2:
        writers = Counter(path for one in living for path in set(one.logs))
        spawned = [one for one in living if any(writers[path] == 1 for path in one.logs)]
        numbered = numbered_logs(spawned + ended)
        members = spawned if numbered and all(trains(one.pid) for one in spawned) else []
    return members + ended if members else []


def _separate(
    group: "list[Sibling]", distributed: "Callable[[int], bool]", trains: "Callable[[int], bool]"
) -> "list[Sibling]":
    """Return the ranks among processes that were started separately.

    A process alone in its group is a rank if it trains and states its rank, world size and rendezvous.
    """
    if len(group) < 2:
        alone = [
            one
            for one in group
            if len(stated_group(one.command)) > 1 and separate_numbers([one])[1] != "order"
        ]
        return [one for one in alone if distributed(one.pid) or trains(one.pid)]
    members = [one for one in group if distributed(one.pid)]
    if len(members) < 2:
        stated = separate_numbers(group)[1] != "order"
        members = group if stated and all(trains(one.pid) for one in group) else []
    return members


def _given(members: "Sequence[Sibling]", parent: "int | None" = None) -> "dict[int, dict[str, object]]":
    """Return pid -> rank facts of each member; empty for none, or only one of a parent.

    `parent`: None if they were started separately.
    """
    if len(members) < (1 if parent is None else 2):
        return {}
    known, source = separate_numbers(members) if parent is None else numbers(members)
    facts: dict[str, object] = {} if parent is None else {"launcher": parent}
    size = max(len(members), max(known.values()) + 1)
    return {
        pid: dict(facts, rank=rank, local_rank=rank, world_size=size, rank_source=source)
        for pid, rank in known.items()
    }
