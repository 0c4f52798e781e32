"""Who has imported torch, come to the store and joined, and how long the next of them is waited for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuwatch.probe.results import Seat

IMPORT_S = 120.0
"""Importing torch from a cold network file system takes a minute."""
MARGIN_S = 5.0
"""Beyond the time that the ranks grant each other: they report better who is missing."""
JOIN_S = 120.0
"""For the group of all and its first collective, each within the time limit of a step."""
RANKS_WAIT_S = 2 * IMPORT_S
"""What the ranks grant each other to come: longer than anybody here does, so that the late one is named."""
WAITS_FOR_DISK = "D"
"""A state of a process in /proc: what it reads does not come."""


class Arrivals:
    """The ranks on their way into the group."""

    def __init__(self, seats: Iterable[Seat], began: float, timeout_s: float) -> None:
        """Nobody has come yet.

        Args:
            seats: All ranks.
            began: Now, of the conductor's clock.
            timeout_s: Of one collective or pair.
        """
        self._nodes = {seat.rank: seat.node for seat in seats}
        self._timeout_s = timeout_s
        self._began = began
        self._importing = dict.fromkeys(self._nodes.values())
        self._on_the_way = set(self._nodes)
        self.waiting = set(self._nodes)
        """Ranks that have not joined."""
        self.until = began + IMPORT_S + timeout_s
        """Of the clock: when those that are late are given up."""

    def arrived(self, rank: int, now: float) -> None:
        """A rank is at the store: its node has imported torch."""
        self._on_the_way.discard(rank)
        self._importing.pop(self._nodes.get(rank, ""), None)
        if not self._on_the_way:
            self.until = now + JOIN_S
        elif not self._importing:  # no import excuses the others any more
            self.until = min(self.until, now + self._timeout_s + MARGIN_S)

    def joined(self, rank: int) -> None:
        """A rank is in the group."""
        self.waiting.discard(rank)

    def late(self, now: float, states: Mapping[str, str | None]) -> tuple[list[int], str]:
        """Those that hold the others up, and what to state about them.

        Args:
            now: Of the clock.
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
