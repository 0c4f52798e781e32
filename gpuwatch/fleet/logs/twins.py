"""Files that several nodes see although no file system reports that it is shared (a bind mount, state)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import structs

from gpuwatch.wire import LogFile

TWIN = "twin:"
"""Begins the identity of such a file. Every node goes on to follow it: that it is one is only inferred."""
MAX_TWINS = 20_000


class Twins:
    """Gives files one identity that had the same fingerprint on two nodes, last write in ns included."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """Fingerprint -> node and path where it was seen first."""
        self._identities: dict[tuple[str, str], str] = {}
        """Node and path -> identity."""

    def take(self, node: str, files: Sequence[LogFile]) -> set[str]:
        """Compare what a node lists; the other nodes whose files got an identity by that."""
        others = set()
        for file in files:
            if file.fingerprint is None or file.identity is not None or (node, file.path) in self._identities:
                continue
            first = self._seen.setdefault(file.fingerprint, (node, file.path))
            if first[0] != node:
                identity = self._identities.setdefault(first, f"{TWIN}{file.fingerprint}")
                self._identities[node, file.path] = identity
                others.add(first[0])
        while len(self._seen) > MAX_TWINS:
            self._seen.popitem(last=False)
        return others

    def named(self, node: str, files: Sequence[LogFile]) -> list[LogFile]:
        """The files of a node with the identities that are known."""
        return [
            file
            if file.identity is not None or (found := self._identities.get((node, file.path))) is None
            else structs.replace(file, identity=found)
            for file in files
        ]
