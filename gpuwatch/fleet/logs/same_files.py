"""Finds files that several nodes see although no file system reports them as shared (bind mounts)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.fleet.logs.node_shares import NodeShares
from gpuwatch.wire import LogFile

BY_FINGERPRINT = "fingerprint:"
"""Prefix of such a file's identity. Every node continues to follow it: that it is shared is only inferred."""
MAX_FINGERPRINTS = 20_000
"""Maximum number of fingerprints, and of files with an identity, of the whole fleet."""
MAX_CHARACTERS = 4_000_000
"""Maximum number of characters in the fingerprints of one node, and in its paths and identities."""


class SameFiles:
    """Gives files the same identity if two nodes report the same fingerprint, with the last write in ns."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, str]] = {}
        """Fingerprint -> the node and path where it was first seen."""
        self._identities: dict[tuple[str, str], str] = {}
        """(node, path) -> identity."""
        self._fingerprints: NodeShares[str] = NodeShares(MAX_FINGERPRINTS, MAX_CHARACTERS)
        self._named: NodeShares[str] = NodeShares(MAX_FINGERPRINTS, MAX_CHARACTERS)

    def take(self, node: str, files: Sequence[LogFile]) -> set[str]:
        """Store a node's fingerprints of files; return the other nodes that get new identities by them."""
        others = set()
        for file in files:
            if file.fingerprint is None or file.identity is not None or (node, file.path) in self._identities:
                continue
            first = self._first_file(file.fingerprint, node, file.path)
            if first[0] != node:
                identity = f"{BY_FINGERPRINT}{file.fingerprint}"
                self._name(*first, identity)
                self._name(node, file.path, self._identities.get(first, identity))
                others.add(first[0])
        return others

    def _first_file(self, fingerprint: str, node: str, path: str) -> tuple[str, str]:
        """Return the node and path where a fingerprint was first seen; `node` and `path` if it is new."""
        first = self._seen.setdefault(fingerprint, (node, path))
        for _, surplus in list(
            self._fingerprints.surplus(first[0], fingerprint, len(fingerprint) + len(path))
        ):
            del self._seen[surplus]
        return first

    def _name(self, node: str, path: str, identity: str) -> None:
        """Store the identity of a file; a file that already has one keeps it."""
        if self._identities.setdefault((node, path), identity) == identity:
            for named in list(self._named.surplus(node, path, len(path) + len(identity))):
                del self._identities[named]

    def named(self, node: str, files: Sequence[LogFile]) -> list[LogFile]:
        """Return the files of a node with their known identities."""
        return [
            file
            if file.identity is not None or (found := self._identities.get((node, file.path))) is None
            else structs.replace(file, identity=found)
            for file in files
        ]
