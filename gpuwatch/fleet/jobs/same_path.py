"""Ended jobs whose logs have the same path on several nodes: one job, or unrelated ones on local disks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpuwatch.fleet.jobs.ended_files import LAUNCHER_S, has_own_id
from gpuwatch.wire import LogFile


class RankFolder(Struct, frozen=True):
    """The name and ranks of an ended job that logged into one folder of a node, and when it last wrote."""

    name: str
    ranks: frozenset[int]
    last: float
    """Time of the last write to the logs (unix seconds)."""

    def is_with(self, other: RankFolder) -> bool:
        """Return True if the folder with this path on another node belongs to the same job.

        The nodes then have different ranks, rank 0 is one of them, and both last wrote at about the same
        time.
        """
        apart = self.ranks.isdisjoint(other.ranks) and 0 in self.ranks | other.ranks
        return apart and abs(self.last - other.last) <= LAUNCHER_S


class SamePath:
    """Gives jobs with the same name distinct ones, `srv/run@n3` and `srv/run@n22`; such a name stays."""

    def __init__(self) -> None:
        self._ranks: dict[str, dict[str, frozenset[int]]] = defaultdict(dict)
        """Name -> node with files on its own disk -> the ranks in them."""
        self._last: dict[str, dict[str, float]] = defaultdict(dict)
        """Name -> node -> when its files were last written (unix seconds of the node)."""
        self._folders: dict[str, dict[str, RankFolder]] = defaultdict(dict)
        """Folder with logs of ranks -> node -> what is in it there."""
        self._of_node: dict[str, set[str]] = {}
        """Node -> its folders with logs of ranks."""
        self._joined: set[tuple[str, str]] = set()
        """(node, folder) that has been named by another node's files."""
        self._apart: set[str] = set()
        self._renamed: set[str] = set()

    def names(self, node: str, files: Sequence[LogFile], names: Mapping[str, str]) -> dict[str, str]:
        """Return path -> job of a node's ended files: `names`, made distinct if necessary.

        Nothing is distinguished until the files have been searched, because only that shows their ranks.
        """
        members: dict[str, list[LogFile]] = defaultdict(list)
        sure = {names[file.path] for file in files if file.path in names and has_own_id(file.path)}
        for file in files:
            if file.path in names and names[file.path] not in sure:
                members[names[file.path]].append(file)
        for name, own in members.items():
            if any(file.searched_to is not None and file.searched_to < (file.size or 0) for file in own):
                continue  # not all of its ranks are known yet
            self._last[name][node] = max(file.last_at or 0.0 for file in own)
            if all(_is_private(file) for file in own):
                self._ranks[name][node] = frozenset(rank for file in own for rank in file.ranks)
            else:
                self._ranks[name].pop(node, None)
            ends = [self._last[name][each] for each in self._ranks[name]]
            if name not in self._apart and not _may_be_one(self._ranks[name].values(), ends):
                self._apart.add(name)
                self._renamed.update(self._ranks[name])
        private = {name for name in self._apart & members.keys() if node in self._ranks[name]}
        shorter = self._names_elsewhere(node, files, names)
        return {
            path: f"{name}@{node}" if name in private else shorter.get(name, name)
            for path, name in names.items()
        }

    def _names_elsewhere(
        self, node: str, files: Iterable[LogFile], names: Mapping[str, str]
    ) -> dict[str, str]:
        """Return job name here -> the shorter name that another node's files give to the same job.

        Also stores the node's folders, and marks other nodes whose longer name this node replaces.

        One node may have files that show the run's id, as torchrun's, and the other only logs of ranks.
        """
        here = _rank_folders(files, names)
        for folder in self._of_node.get(node, set()) - here.keys():
            del self._folders[folder][node]
            if not self._folders[folder]:
                del self._folders[folder]
        self._of_node[node] = set(here)
        found = {}
        for folder, own in here.items():
            self._folders[folder][node] = own
            for other, its in self._folders[folder].items():
                if other == node or own.name == its.name or not own.is_with(its):
                    continue
                if len(its.name) < len(own.name):
                    found[own.name] = its.name
                elif (other, folder) not in self._joined:
                    self._joined.add((other, folder))
                    self._renamed.add(other)
        return found

    def take_renamed(self) -> set[str]:
        """Return the nodes whose jobs were renamed since the last call."""
        renamed, self._renamed = self._renamed, set()
        return renamed


def _rank_folders(files: Iterable[LogFile], names: Mapping[str, str]) -> dict[str, RankFolder]:
    """Return folder -> the ranks of an ended job that have logs in it, with the time of the last write."""
    found: dict[str, RankFolder] = {}
    for file in files:
        if file.path in names and file.ranks:
            folder = file.path.rpartition("/")[0]
            known = found.get(folder, RankFolder(names[file.path], frozenset(), 0.0))
            last = max(known.last, file.last_at or 0.0)
            found[folder] = RankFolder(known.name, known.ranks | frozenset(file.ranks), last)
    return found


def _is_private(file: LogFile) -> bool:
    """Return True if a file's fingerprint is known and no other node's file has the same one."""
    return file.identity is None and file.fingerprint is not None and file.searched_to is not None


def _may_be_one(nodes: Iterable[frozenset[int]], ends: Sequence[float]) -> bool:
    """Return True if the nodes' ranks can form one job: numbered from 0 without a gap, none twice.

    If a node's logs show no ranks (a launcher's), gaps are allowed, but the nodes' logs must end together.
    """
    each = list(nodes)
    ranks = [rank for own in each for rank in own]
    if len(each) < 2:
        return True
    if all(each):
        return sorted(ranks) == list(range(len(ranks)))
    return len(set(ranks)) == len(ranks) and max(ends) - min(ends) <= LAUNCHER_S
