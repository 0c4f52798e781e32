"""How many processes one node may list, and how often their ranks may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.wire import Process

MOST_PROCESSES = 1024
"""In one list of a node: agents list no more."""
RANKS_PER_S, RANKS_BURST = 100.0, 8.0 * MOST_PROCESSES
"""Of a node, in lists whose ranks changed; eight ranks that start anew every second stay far below."""

RankKey: TypeAlias = tuple[int, int, str | None, str | None]
"""Pid, rank, job and rendezvous of a process."""


class TooManyError(Exception):
    """A node reports more than any machine has."""


class RankChanges:
    """Counts, for each node and over all its connections, the ranks in lists that differ from the one before.

    Every such list names jobs, places and files anew, which costs the whole fleet time.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, set[RankKey]] = {}
        self._allowances: dict[str, TokenBucket] = {}

    def register(self, node: str, processes: Sequence[Process], at: float) -> None:
        """Count one list, which arrived at `at` (monotonic seconds).

        Raises:
            TooManyError: the list is longer than any agent's, or ranks change faster than any job's.
        """
        if len(processes) > MOST_PROCESSES:
            raise TooManyError(f"{len(processes)} processes in one list, of at most {MOST_PROCESSES}")
        ranks = {(each.pid, each.rank, each.job, each.master) for each in processes if each.rank is not None}
        before, self._ranks[node] = self._ranks.get(node, set()), ranks
        allowance = self._allowances.setdefault(node, TokenBucket(RANKS_PER_S, RANKS_BURST))
        if ranks != before and not allowance.spend(len(ranks | before), at):
            raise TooManyError(f"lists of ranks change by more than {RANKS_PER_S:g} ranks a second")
