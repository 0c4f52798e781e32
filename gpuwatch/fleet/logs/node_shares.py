"""Shares of a bounded store among nodes: a node with too many entries loses its own, not those of others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class NodeShares(Generic[Key]):
    """Counts the entries of each node in a store, from oldest to newest, and chooses the ones to drop.

    If one node floods the store, only its own entries are dropped: the other nodes have fewer.

    Example: the limit is 6 entries; n1 has 4 and n2 has 2. One more entry of n1 or of n2 drops n1's oldest
    one.
    """

    def __init__(self, max_entries: int, max_size: int) -> None:
        """Create an empty count.

        Args:
            max_entries: Of all nodes together.
            max_size: Of the entries of one node together, in the unit of the sizes given to `surplus`.
        """
        self._max_entries, self._max_size = max_entries, max_size
        self._sizes: dict[str, dict[Key, int]] = {}
        self._totals: dict[str, int] = {}
        self._count = 0

    def surplus(self, node: str, key: Key, size: int) -> Iterator[tuple[str, Key]]:
        """Count an entry that the store keeps; yield the node and key of each entry to drop for it.

        Nothing is counted until the result is iterated, to its end.

        An entry that is already counted keeps its age.
        """
        mine = self._sizes.setdefault(node, {})
        self._count += key not in mine
        self._totals[node] = self._totals.get(node, 0) + size - mine.get(key, 0)
        mine[key] = size
        while self._count > self._max_entries:
            yield self._pop_oldest(self._fullest(node))
        while self._totals[node] > self._max_size and len(mine) > 1:
            yield self._pop_oldest(node)

    def forget(self, node: str) -> None:
        """Remove all entries of a node from the count."""
        self._count -= len(self._sizes.pop(node, {}))
        self._totals.pop(node, None)

    def _fullest(self, node: str) -> str:
        """Return the node with most entries; `node` without a search, if it has over half of all entries."""
        if 2 * len(self._sizes[node]) > self._count:
            return node
        return max(self._sizes, key=lambda name: len(self._sizes[name]))

    def _pop_oldest(self, node: str) -> tuple[str, Key]:
        oldest = next(iter(self._sizes[node]))
        self._totals[node] -= self._sizes[node].pop(oldest)
        self._count -= 1
        return node, oldest
