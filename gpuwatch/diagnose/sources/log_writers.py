"""Determines which node wrote a log, if the node that reads it may share the file with others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.runs.placement.owners import hosts_in
from gpuwatch.wire import KERNEL_LOG, Finding, LogFile

ReadFile: TypeAlias = tuple[str, str]
"""The reading node and the path of a file."""
PATH_PARTS = 2
"""Number of trailing parts of a path (file name included) that may name the node."""


class LogWriters:
    """Tracks which log files several nodes see, or name other nodes: the reader may not be the writer."""

    def __init__(self) -> None:
        self._version = -1
        self._writers: dict[str, set[str]] = defaultdict(set)
        """Identity of a shared file -> nodes on which a process wrote it."""
        self._shared: dict[ReadFile, str | None] = {}
        """File -> the only node that is known to write it."""
        self._naming: set[ReadFile] = set()
        self._listed: dict[str, tuple[list[LogFile], float]] = {}
        """Node -> its list of files and its clock's offset (seconds), as they were taken last."""
        self._identities: dict[ReadFile, str] = {}
        """Shared file -> its identity, as it was listed last."""
        self._files: dict[str, set[ReadFile]] = defaultdict(set)
        """Identity -> the files that have it."""
        self._grown: dict[str, dict[str, float]] = {}
        """Node -> path -> when the file last grew (unix seconds on our clock)."""

    def take(self, fleet: Fleet) -> set[ReadFile]:
        """Record who writes the listed files.

        Return the files whose known writer changed, and new shared files.
        """
        if fleet.logs_version == self._version:
            return set()
        self._version = fleet.logs_version
        listed = {name: (node.logs, node.offset_s) for name, node in fleet.nodes.items()}
        moved = [
            node
            for node in fleet.nodes.values()
            if (before := self._listed.get(node.name)) is None
            or before[0] is not node.logs
            or before[1] != node.offset_s
        ]
        self._listed = listed
        touched = {identity for node in moved for identity in self._take_node(node)}
        new = set()
        for identity in touched:
            writer = _only(self._writers.get(identity, set()))
            for file in self._files[identity]:
                if file not in self._shared or self._shared[file] != writer:
                    self._shared[file] = writer
                    new.add(file)
        return new

    def _take_node(self, node: Node) -> Iterator[str]:
        """Record a node's list of files; yield the identities with a new file or writer."""
        self._grown[node.name] = {
            file.path: file.grown_at - node.offset_s for file in node.logs if file.grown_at is not None
        }
        for file in node.logs:
            if file.identity is None:
                continue
            at, before = (node.name, file.path), self._identities.get((node.name, file.path))
            if before != file.identity:
                self._files[before or ""].discard(at)
                self._files[file.identity].add(at)
                self._identities[at] = file.identity
                yield file.identity
            if file.pids and node.name not in self._writers[file.identity]:
                self._writers[file.identity].add(node.name)
                yield file.identity

    def note(self, node: str, finding: Finding, host: str | None, where: RankIndex) -> bool:
        """Record the host that a finding's lines name.

        Returns True if it is the first sign that the finding's file names other hosts.
        """
        file = node, finding.file
        if host is None or finding.file == KERNEL_LOG or file in self._naming:
            return False
        if where.named(host) == node:
            return False
        self._naming.add(file)
        return True

    def written_until(self, node: str, path: str) -> float | None:
        """Return when a file was last written (unix seconds on our clock); None: unknown."""
        return self._grown.get(node, {}).get(path)

    def is_foreign(self, node: str, path: str) -> bool:
        """Return True if a line of this file that names no host may come from another node."""
        return (node, path) in self._naming or self._shared.get((node, path), node) != node

    def writer(self, node: str, path: str, where: RankIndex) -> str | None:
        """Return the node that writes a file: the only known writer, else the node in its path, or None."""
        known = None if (node, path) in self._naming else self._shared.get((node, path))
        hosts = (
            where.named(host) for part in path.split("/")[: -PATH_PARTS - 1 : -1] for host in hosts_in(part)
        )
        return known or next((host for host in hosts if host is not None), None)


def _only(nodes: set[str]) -> str | None:
    return next(iter(nodes)) if len(nodes) == 1 else None
