"""Which nodes see one file of a shared file system: those that reported the same fingerprint of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.fleet.logs.node_shares import NodeShares
from gpuwatch.fleet.logs.twins import Twins
from gpuwatch.wire import LogFile, Logs, SharedFolder

MAX_FILES = 40_000
"""Fingerprints, and as many stated identities, of the whole fleet."""
MAX_CHARACTERS = 4_000_000
"""Of the fingerprints and identities of one node."""


class SharedIdentities:
    """Distinguishes files of one stated identity until two nodes reported the same fingerprint.

    The name of a file system and an inode can be guessed. Its size, the time of its last write (ns) and the
    checksums of its ends are known to who sees the file: a node that states the identity alone sees another
    one. That two nodes see one file stays true when it grows.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        """Identity and fingerprint -> the node that reported both first."""
        self._twins = Twins()
        self._groups: dict[str, dict[str, str]] = {}
        """Identity -> node -> the first node of those that see the same file."""
        self._firsts: NodeShares[tuple[str, str]] = NodeShares(MAX_FILES, MAX_CHARACTERS)
        self._stated: NodeShares[str] = NodeShares(MAX_FILES, MAX_CHARACTERS)

    def take(self, node: str, logs: Logs) -> set[str]:
        """Compare what a node lists; the other nodes of whose files more is known by that."""
        changed = self._twins.take(node, logs.files)
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
        return changed - {node}

    def _first_node(self, node: str, identity: str, fingerprint: str) -> str:
        """The node that reported both first, this one where none did."""
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
        """The same for all nodes that are known to see the file."""
        return f"{stated} of {self._groups.get(stated, {}).get(node, node)}"

    def files(self, node: str, files: Sequence[LogFile]) -> list[LogFile]:
        """The files of a node with such identities, those of twins on local file systems included."""
        shared = [
            file
            if file.identity is None
            else structs.replace(file, identity=self.identity(node, file.identity))
            for file in files
        ]
        return self._twins.named(node, shared)
