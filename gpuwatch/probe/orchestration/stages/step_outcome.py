"""The result of one step, and which ranks its answers name as failed.

A node may report wrongly about other nodes. A rank that others report as absent, or that is silent, is named
only if its own node or most other nodes agree. A rank's report about itself is accepted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from gpuwatch.probe.protocol import Done, Step

NodeOf = Callable[[int], str]

MIN_TIME_S = 1e-7
"""Minimum plausible time in seconds: a message or kernel takes at least a microsecond on any hardware."""
MAX_BPS = 1e14
"""Maximum plausible rate of a pair or collective, bytes per second.

It is 50 times the rate of all links of one GPU together (NVLink 5: 1.8e12).
"""
MAX_TIMEOUTS = 100
"""Maximum plausible time of an iteration, in time limits of the step: a rank gives up after one."""
MAX_VALUE = 1e18
"""Maximum plausible result of one GPU's test, FLOP/s or bytes per second: a hundred times any current one."""

_LOCAL_FAULT = re.compile(
    r"out of memory|CUDA(?: driver)? error|cannot allocate memory|no GPU", re.IGNORECASE
)
"""Errors of torch that no other rank can cause.

All others may be caused by a peer that hangs or has closed.
"""


@dataclass
class StepOutcome:
    """The answers of the ranks to one step."""

    ranks: frozenset[int]
    """The ranks that take part."""
    collective: bool
    """True if one rank can delay all others in this step."""
    done: dict[int, Done] = field(default_factory=dict)
    absent: list[int] = field(default_factory=list)
    """Ranks that did not reach the barrier before the step."""
    died: dict[int | None, str] = field(default_factory=dict)
    """Rank (None: the worker of a node) -> the reason of its death, with its name."""
    missing: list[int] = field(default_factory=list)
    """Ranks without an answer at the end."""
    excused: set[int] = field(default_factory=set)
    """Ranks that communicated with a failed rank: they may hang because of it."""

    @property
    def failure(self) -> str | None:
        """Why the ranks cannot continue together: a rank died; None: none did."""
        return next(iter(self.died.values()), None)

    @property
    def errors(self) -> dict[int, str]:
        """Rank -> text of its error, for the ranks that failed."""
        return {rank: done.error for rank, done in self.done.items() if done.error is not None}

    @property
    def local_faults(self) -> dict[int, str]:
        """Rank -> its error, if no other rank can have caused that."""
        return {rank: error for rank, error in self.errors.items() if _LOCAL_FAULT.search(error)}

    def add(self, done: Done, step: Step) -> None:
        """Add an answer; if it is an error, excuse the ranks that may wait for its rank."""
        self.done[done.rank] = done
        if done.error is None:
            return
        if not self.collective:
            self.excused.update(other for pair in step.pairs if done.rank in pair for other in pair)
        elif _LOCAL_FAULT.search(done.error):
            self.excused.update(self.ranks)

    def reported_absent(self, node_of: NodeOf) -> dict[int, set[str]]:
        """Return rank without an answer -> the nodes that report it as absent.

        Only ranks that their own node or most other nodes report.
        """
        by: defaultdict[int, set[str]] = defaultdict(set)
        for rank, done in self.done.items():
            for absent in self.ranks.intersection(done.absent).difference(self.done):
                by[absent].add(node_of(rank))
        others = len({node_of(rank) for rank in self.ranks}) - 1
        return {rank: by[rank] for rank in by if node_of(rank) in by[rank] or 2 * len(by[rank]) > others}

    def confirmed_absent(self, node_of: NodeOf) -> set[int]:
        """Return the ranks of `reported_absent` that their own node or two others report.

        They will not answer.
        """
        reported = self.reported_absent(node_of).items()
        return {rank for rank, by in reported if len(by) > 1 or node_of(rank) in by}

    def silent(self, node_of: NodeOf) -> list[int]:
        """Return the ranks without an answer that no failed rank excuses.

        For a collective, the list is empty if they are on more nodes than the answers: otherwise one node
        that answers at once and delays all others could cause them to be named.
        """
        unexcused = [rank for rank in self.missing if rank not in self.excused]
        answered = {node_of(rank) for rank in self.done}
        held_up = {node_of(rank) for rank in unexcused} - answered
        return [] if self.collective and self.done and len(held_up) > len(answered) else unexcused


def possible(done: Done, step: Step) -> Done:
    """Return the answer; if its numbers are impossible on any hardware, a failure of its rank instead.

    Impossibly fast rates would make every other link look slow.
    """
    timed = step.what in ("collective", "bandwidth")
    least_s = max(MIN_TIME_S, step.bytes / MAX_BPS if timed else 0.0)
    most_s = MAX_TIMEOUTS * max(step.timeout_s, 1.0)
    times = all(least_s <= time_s <= most_s for time_s in done.times_s)
    value = done.value is None or 0 <= done.value <= MAX_VALUE
    if times and value:
        return done
    error = done.error or "it returned numbers that cannot be measured on any hardware"
    return msgspec.structs.replace(done, times_s=[], value=None, correct=None, error=error)
