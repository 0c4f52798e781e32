"""Finds nodes that see the same file of a shared file system: they report the same fingerprint of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.fleet.logs.node_shares import NodeShares
from gpuwatch.fleet.logs.same_files import SameFiles
from gpuwatch.fleet.logs.written_elsewhere import WrittenElsewhere
from gpuwatch.wire import LogFile, Logs, SharedFolder

MAX_FILES = 40_000
"""Maximum number of fingerprints, and of reported identities, of the whole fleet."""
MAX_CHARACTERS = 4_000_000
"""Maximum number of characters in the fingerprints and identities of one node."""


class SharedIdentities:
    """Decides which files of different nodes are the same: those with equal identity and fingerprint.

    A hostile node can guess the name of a file system and an inode, but not the size, the time of the last
    write (ns) and the checksums of the file's ends. Two nodes that see the same file continue to do so when
    it grows.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        """(identity, fingerprint) -> the node that first reported both."""
        self._same_files = SameFiles()
        self._elsewhere = WrittenElsewhere()
        self._groups: dict[str, dict[str, str]] = {}
        """Identity -> node -> the first node that sees the same file."""
        self._firsts: NodeShares[tuple[str, str]] = NodeShares(MAX_FILES, MAX_CHARACTERS)
        self._stated: NodeShares[str] = NodeShares(MAX_FILES, MAX_CHARACTERS)

    def take(self, node: str, logs: Logs) -> set[str]:
        """Store the files that a node lists; return the other nodes whose files were matched with them."""
        changed = self._same_files.take(node, logs.files)
        shared: list[LogFile | SharedFolder] = [*logs.files, *logs.shared]
        for each in shared:
            if each.identity is None:
                continue
            self._groups.setdefault(each.identity, {}).setdefault(node, node)
            if each.fingerprint is not None:
                changed |= self._join(
                    each.identity, self._first_node(node, each.identity, each.fingerprint), node
                )
            for other, identity in list(self._stated.surplus(node, each.identity, len(each.identity))):
                del self._groups[identity][other]
                if not self._groups[identity]:
                    del self._groups[identity]
        return (changed | self._elsewhere.take(node, logs.files)) - {node}

    def _first_node(self, node: str, identity: str, fingerprint: str) -> str:
        """Return the node that first reported an identity with a fingerprint; `node` if they are new."""
        seen = identity, fingerprint
        first = self._first.setdefault(seen, node)
        for _, surplus in list(self._firsts.surplus(first, seen, len(identity) + len(fingerprint))):
            del self._first[surplus]
        return first

    def _join(self, identity: str, one: str, other: str) -> set[str]:
        groups = self._groups[identity]
        kept, left = groups.setdefault(one, one), groups.setdefault(other, other)
        moved = {node for node, group in groups.items() if group == left} if kept != left else set()
        groups.update(dict.fromkeys(moved, kept))
        return moved

    def identity(self, node: str, stated: str) -> str:
        """Return a file's identity, equal on all nodes known to see it; `stated`: as the node reports it."""
        return f"{stated} of {self._groups.get(stated, {}).get(node, node)}"

    def files(self, node: str, files: Sequence[LogFile]) -> list[LogFile]:
        """Return a node's files with identities that are equal on all nodes that see the file.

        Local files get those of `SameFiles`. A file that a process of another node writes is not of an ended
        job.
        """
        return self._elsewhere.marked(node, self._identified(node, files), self._identified)

    def _identified(self, node: str, files: Sequence[LogFile]) -> list[LogFile]:
        shared = [
            file
            if file.identity is None
            else structs.replace(file, identity=self.identity(node, file.identity))
            for file in files
        ]
        return self._same_files.named(node, shared)
