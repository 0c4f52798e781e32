"""Marks the files that a process of another node has open: they are not of an ended job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import structs

from gpuwatch.wire import LogFile

Identify: TypeAlias = Callable[[str, Sequence[LogFile]], list[LogFile]]
"""Node, its files -> the same files with identities that are equal on every node that sees them."""


class WrittenElsewhere:
    """Remembers which files each node's processes write, and which nodes found files without a writer."""

    def __init__(self) -> None:
        self._written: dict[str, list[LogFile]] = {}
        """Node -> its files that processes there have open, as its agent lists them."""
        self._finders: set[str] = set()

    def take(self, node: str, files: Sequence[LogFile]) -> set[str]:
        """Store the files that a node lists; return the other nodes whose files have to be marked again."""
        before = {file.path for file in self._written.get(node, ())}
        written = [file for file in files if file.pids and file.source != "kernel"]
        self._written[node] = written
        self._finders.discard(node)
        if any(map(_seems_ended, files)):
            self._finders.add(node)
        changed = before != {file.path for file in written}
        return self._finders - {node} if changed else set()

    def marked(self, node: str, files: list[LogFile], identify: Identify) -> list[LogFile]:
        """Return the files of a node; those that another node's process writes have no `last_at`."""
        found = {file.identity for file in files if _seems_ended(file)} - {None}
        if not found:
            return files
        held = set(self._identities(node, identify)) & found
        return [
            structs.replace(file, last_at=None) if _seems_ended(file) and file.identity in held else file
            for file in files
        ]

    def _identities(self, besides: str, identify: Identify) -> Iterable[str | None]:
        for node, written in self._written.items():
            if node != besides:
                yield from (file.identity for file in identify(node, written))


def _seems_ended(file: LogFile) -> bool:
    return file.source == "found" and file.last_at is not None and not file.pids
