"""Finds files that several nodes see although no file system reports them as shared (bind mounts).

By their state (size, last write, both ends); growing files by checksums at common offsets and one order of
growth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from gpuwatch.fleet.logs.node_shares import NodeShares
from gpuwatch.wire import LogFile

BY_FINGERPRINT = "fingerprint:"
"""Prefix of such a file's identity. Every node continues to follow it: that it is shared is only inferred."""
MAX_FINGERPRINTS = 20_000
"""Maximum number of fingerprints, and of files with an identity, of the whole fleet."""
MAX_CHARACTERS = 4_000_000
"""Maximum number of characters in the fingerprints of one node, and in its paths and identities."""

MATCHES = 2
"""Common offsets after which two files are the same: they have grown alike from one to the next."""
MAX_GROWTH_KEYS = 40_000
"""Maximum number of offsets, and of pairs of files, of the whole fleet."""
MAX_KEY_CHARACTERS = 4_000_000
"""Maximum number of characters in the offsets of one node, and in its pairs."""


NodePath = tuple[str, str]


class Reading(NamedTuple):
    """A file as a node reported it with an offset; `modified`: its last write (ns)."""

    file: NodePath
    size: int
    modified: int


class GrowthMatches:
    """Counts the offsets at which files of two nodes agree.

    While a file grows fast, no two nodes report it with the same size. Of one file that only grows, the
    larger size has the later write, whichever node read it; two files that disagree in that never become
    the same.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Reading] = {}
        """Inode, creation, offset and checksums -> the reading in which they were first reported."""
        self._matched: dict[tuple[NodePath, NodePath], set[str]] = {}
        """Two files -> the offsets at which they agree; empty: they differ."""
        self._keys: NodeShares[str] = NodeShares(MAX_GROWTH_KEYS, MAX_KEY_CHARACTERS)
        self._pairs: NodeShares[tuple[NodePath, NodePath]] = NodeShares(MAX_GROWTH_KEYS, MAX_KEY_CHARACTERS)

    def take(self, key: str, state: str, file: NodePath) -> NodePath | None:
        """Store a reported offset; return the file of another node that has grown alike, if there is one.

        Args:
            key: Inode, creation, offset and checksums, as the node reports them.
            state: Size, last write and checksums of both ends, likewise.
            file: The node and path.
        """
        first = self._seen.get(key)
        if first is not None and first.file[0] == file[0]:
            return None
        size, modified = _numbers(state)
        if size is None or modified is None:
            return None
        if first is None:
            self._seen[key] = Reading(file, size, modified)
            for _, surplus in list(self._keys.surplus(file[0], key, len(key) + len(file[1]))):
                del self._seen[surplus]
            return None
        return first.file if self._agree(key, first, Reading(file, size, modified)) else None

    def _agree(self, key: str, first: Reading, reading: Reading) -> bool:
        pair = min(first.file, reading.file), max(first.file, reading.file)
        if pair not in self._matched:
            self._matched[pair] = {key}
            size = len(first.file[1]) + len(reading.file[1])
            for _, surplus in list(self._pairs.surplus(reading.file[0], pair, size)):
                self._matched.pop(surplus, None)
        offsets = self._matched.get(pair)
        if not offsets:
            return False
        if not _in_order(first, reading):
            offsets.clear()
            return False
        offsets.add(key)
        return len(offsets) >= MATCHES


def _in_order(one: Reading, other: Reading) -> bool:
    """Return True if both can be readings of one file that only grows."""
    if one.size == other.size:
        return one.modified == other.modified
    return (one.size < other.size) == (one.modified < other.modified) or one.modified == other.modified


def _numbers(state: str) -> tuple[int | None, int | None]:
    try:
        size, modified, *_ = state.split(":")
        return int(size[:16], 16), int(modified[:20], 16)
    except ValueError:
        return None, None


class SameFiles:
    """Gives files the same identity if two nodes report the same state, with the last write in ns.

    Or if they have grown alike, since the states of a file that grows fast never agree.
    """

    def __init__(self) -> None:
        self._growth = GrowthMatches()
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
            made, growth, state = _parts(file.fingerprint)
            exact = f"{made}|{state}"
            first = self._first_file(exact, node, file.path)
            if first[0] == node and growth:
                first = self._growth.take(f"{made}|{growth}", state, (node, file.path)) or first
            if first[0] != node:
                identity = f"{BY_FINGERPRINT}{exact}"
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
        """Return the files of a node; those without an identity get the known one of their path."""
        return [
            file
            if file.identity is not None or (found := self._identities.get((node, file.path))) is None
            else structs.replace(file, identity=found)
            for file in files
        ]


def _parts(fingerprint: str) -> tuple[str, str, str]:
    """Return (made, growth, state), the parts of a fingerprint; one of an old recording is all state."""
    made, _, rest = fingerprint.partition("|")
    growth, _, state = rest.partition("|")
    return (made, growth, state) if state else ("", "", fingerprint)
