"""Groups the ranks of a job by the location in their stacks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpuwatch.diagnose.hang.stacks.kernel_waits import HELD_STATES, STOPPED, kernel_wait, waits_on_socket
from gpuwatch.diagnose.hang.stacks.locations import line, place_of
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.wire import KernelThread, ProcessStack, PythonThread

SHOWN_FRAMES = 12
LEAST_WAITING = 2
"""Least number of ranks that must wait on a socket for the one that does not to be named."""


class RankStack(Struct, frozen=True):
    """A rank's process and the stack that its node returned, or why there is none."""

    rank: int
    node: str
    pid: int
    job: str | None = None
    gpu: int | None = None
    world: int | None = None
    """Number of ranks of the job, if all of them should be among the queried ones."""
    stack: ProcessStack | None = None
    missing: str | None = None
    """Why there is no stack."""
    inferred: bool = False
    """True if the rank is inferred from the start order of sibling processes."""


class StackGroup(Struct, frozen=True):
    """A code location, the ranks that are there, and whether they wait for others."""

    what: str
    """`in data_loader_next (train.py:9)`, `asleep (clock_nanosleep)`."""
    frames: tuple[str, ...]
    """Frames of one of the ranks, innermost first; empty without Python stacks."""
    ranks: tuple[RankStack, ...]
    waits: bool
    """True if the group's ranks wait for other ranks, as far as can be seen."""
    call: str | None = None
    """The torch collective or send in which the group's ranks wait, if the frames show it."""


class JobStacks(Struct, frozen=True):
    """The stacks of one job, grouped by location, the ranks without a stack, and the verdict."""

    job: str | None
    spots: tuple[StackGroup, ...]
    """Smallest group first."""
    unseen: tuple[RankStack, ...]
    """Ranks without a stack."""
    absent: tuple[int, ...]
    """Ranks of the job that run on no node that answered."""
    by: str
    """`python`: grouped by frames; `kernel`: grouped by kernel state."""
    verdict: Verdict


def main_thread(each: RankStack) -> PythonThread | None:
    """Return the main thread; None if it is unknown or has no Python frames."""
    python = each.stack.python if each.stack is not None else []
    return next((thread for thread in python if thread.main and thread.frames), None)


def stack_groups(seen: Sequence[RankStack], *, frames: bool) -> tuple[StackGroup, ...]:
    """Group ranks by location: by Python frames, or (`frames` false) by kernel state; smallest group first.

    Every rank in `seen` has a stack.
    """
    found: dict[tuple[str, bool, str | None], list[RankStack]] = {}
    for each in seen:
        thread = main_thread(each) if frames else None
        if thread is None:
            found.setdefault((*kernel_location(each), None), []).append(each)
            continue
        key = place_of(thread.frames)
        below = kernel_thread(each)
        if (
            below is not None and below.state in HELD_STATES
        ):  # a stopped rank does nothing, whatever its frames are
            key = (f"{kernel_wait(below)[0]} {key[0]}", False, None)
        found.setdefault(key, []).append(each)
    spots = []
    for (what, waits, call), ranks in found.items():
        shown = next((thread for each in ranks if (thread := main_thread(each)) is not None), None)
        lines = [line(frame) for frame in shown.frames[:SHOWN_FRAMES]] if shown is not None else []
        spots.append(StackGroup(what, tuple(lines), tuple(ranks), waits, call))
    return tuple(sorted(spots, key=lambda spot: (len(spot.ranks), spot.waits, spot.ranks[0].rank)))


def kernel_thread(each: RankStack) -> KernelThread | None:
    """Return the main thread as the kernel lists it, or None."""
    return each.stack.threads[0] if each.stack is not None and each.stack.threads else None


def kernel_location(each: RankStack) -> tuple[str, bool]:
    """Return text on what the main thread does, by its kernel state, and whether it may wait for other ranks.

    The text is `gone` if there is no thread.
    """
    thread = kernel_thread(each)
    return ("gone", False) if thread is None else kernel_wait(thread)


def stopped_ranks(spots: Sequence[StackGroup]) -> list[RankStack]:
    """Return the ranks that are stopped (SIGSTOP or a debugger) while others are not, in order."""
    ranks = [each for spot in spots for each in spot.ranks]
    stopped = [
        each for each in ranks if (thread := kernel_thread(each)) is not None and thread.state in STOPPED
    ]
    return sorted(stopped, key=lambda each: each.rank) if len(stopped) < len(ranks) else []


def only_one_off_the_network(spots: Sequence[StackGroup]) -> list[RankStack]:
    """Return the only rank whose main thread waits on no socket while all others do; else [].

    There must be more than `LEAST_WAITING` ranks. Ranks of a program that exchanges data over its own
    sockets wait for each other like this.
    """
    ranks = [each for spot in spots for each in spot.ranks]
    others = [each for each in ranks if not _on_socket(each)]
    return others if len(others) == 1 and len(ranks) > LEAST_WAITING else []


def _on_socket(each: RankStack) -> bool:
    thread = kernel_thread(each)
    return thread is not None and waits_on_socket(thread)
