"""Tracks which ranks have imported torch, reached the store and joined, and how long to wait. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuwatch.probe.results import RankSlot

IMPORT_S = 120.0
"""Seconds allowed for importing torch: from a cold network file system it takes a minute."""
MARGIN_S = 5.0
"""Seconds to wait beyond the limit of the ranks themselves, which report better which rank is missing."""
JOIN_S = 120.0
"""Seconds for the group of all ranks and its first collective, each within the time limit of a step."""
RANKS_WAIT_S = 2 * IMPORT_S
"""Seconds for which the ranks wait for each other.

It is longer than the conductor waits, so that a late rank is reported by name.
"""
WAITS_FOR_DISK = "D"
"""The process state in /proc of a worker that waits for a disk."""


class Arrivals:
    """Tracks the ranks that are joining the group."""

    def __init__(self, slots: Iterable[RankSlot], began: float, timeout_s: float) -> None:
        """Start without any arrival.

        Args:
            slots: All ranks.
            began: The current time by the conductor's clock (seconds).
            timeout_s: Seconds for one collective or pair.
        """
        self._nodes = {slot.rank: slot.node for slot in slots}
        self._timeout_s = timeout_s
        self._began = began
        self._importing = dict.fromkeys(self._nodes.values())
        self._on_the_way = set(self._nodes)
        self.waiting = set(self._nodes)
        """Ranks that have not joined."""
        self.until = began + IMPORT_S + timeout_s
        """When late ranks are given up (conductor's clock)."""

    def arrived(self, rank: int, now: float) -> None:
        """Record that a rank is at the store: its node has imported torch. It may change `until`."""
        self._on_the_way.discard(rank)
        self._importing.pop(self._nodes.get(rank, ""), None)
        if not self._on_the_way:
            self.until = now + JOIN_S
        elif not self._importing:  # no import excuses the others any more
            self.until = min(self.until, now + self._timeout_s + MARGIN_S)

    def has_arrived(self, rank: int | None) -> bool:
        """Return True if a rank has reached the store: from then on it depends on what others send."""
        return rank in self._nodes and rank not in self._on_the_way

    def joined(self, rank: int) -> None:
        """Record that a rank is in the group."""
        self.waiting.discard(rank)

    def late(self, now: float, states: Mapping[str, str | None]) -> tuple[list[int], str]:
        """Return the ranks that delay the others, and the text about them.

        Args:
            now: The current time of the conductor's clock.
            states: Node -> the state of its worker in /proc.
        """
        words = f"did not join within {now - self._began:.0f} s"
        ranks = sorted(self._on_the_way or self.waiting)
        for node in self._importing:
            ranks = [rank for rank in ranks if self._nodes[rank] in self._importing]
            stuck = states.get(node) == WAITS_FOR_DISK
            why = " and waits for its disk or network file system" if stuck else ""
            return ranks, f"{words}: {node} still imports torch{why}"
        return ranks, words
