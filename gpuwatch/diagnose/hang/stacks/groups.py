"""The ranks of a job grouped by the place in their stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwatch.diagnose.hang.stacks.kernel_waits import HELD_STATES, kernel_wait
from gpuwatch.diagnose.hang.stacks.locations import line, place_of
from gpuwatch.diagnose.model.source_verdict import SourceVerdict
from gpuwatch.wire import KernelThread, ProcessStack, PythonThread

SHOWN_FRAMES = 12


@dataclass(frozen=True)
class RankStack:
    """One rank's process, and what was received from it."""

    rank: int
    node: str
    pid: int
    job: str | None = None
    gpu: int | None = None
    world: int | None = None
    """Ranks of the job, where all of them should be among those that are asked."""
    stack: ProcessStack | None = None
    missing: str | None = None
    """Why there is none."""
    inferred: bool = False
    """Its rank is a guess from the order of its siblings' starts."""


@dataclass(frozen=True)
class StackGroup:
    """One place, and the ranks that are there."""

    what: str
    """`in data_loader_next (train.py:9)`, `asleep (clock_nanosleep)`."""
    frames: tuple[str, ...]
    """Of one of them, innermost first; empty without Python stacks."""
    ranks: tuple[RankStack, ...]
    waits: bool
    """For other ranks, as far as that can be seen."""
    call: str | None = None
    """torch's collective or send in which they wait, where the frames show one."""


@dataclass(frozen=True)
class JobStacks:
    """One job."""

    job: str | None
    spots: tuple[StackGroup, ...]
    """Those with the fewest ranks first."""
    unseen: tuple[RankStack, ...]
    """Ranks of which nothing was received."""
    absent: tuple[int, ...]
    """Ranks that the job should have and that run on no node that answered."""
    by: str
    """python: compared by frames; kernel: by what the kernel states."""
    testimony: SourceVerdict


def main_thread(each: RankStack) -> PythonThread | None:
    """The thread that trains."""
    python = each.stack.python if each.stack is not None else []
    return next((thread for thread in python if thread.main and thread.frames), None)


def stack_groups(seen: Sequence[RankStack], *, frames: bool) -> tuple[StackGroup, ...]:
    """Ranks by place: of their Python frames, or else (`frames` is false) of what the kernel shows."""
    found: dict[tuple[str, bool, str | None], list[RankStack]] = {}
    for each in seen:
        thread = main_thread(each) if frames else None
        if thread is None:
            found.setdefault((*kernel_location(each), None), []).append(each)
            continue
        key = place_of(thread.frames)
        below = kernel_thread(each)
        if below is not None and below.state in HELD_STATES:  # it does nothing there, whatever its frames are
            key = (f"{kernel_wait(below)[0]} {key[0]}", False, None)
        found.setdefault(key, []).append(each)
    spots = []
    for (what, waits, call), ranks in found.items():
        shown = next((thread for each in ranks if (thread := main_thread(each)) is not None), None)
        lines = [line(frame) for frame in shown.frames[:SHOWN_FRAMES]] if shown is not None else []
        spots.append(StackGroup(what, tuple(lines), tuple(ranks), waits, call))
    return tuple(sorted(spots, key=lambda spot: (len(spot.ranks), spot.waits, spot.ranks[0].rank)))


def kernel_thread(each: RankStack) -> KernelThread | None:
    """The same thread, as the kernel sees it."""
    return each.stack.threads[0] if each.stack is not None and each.stack.threads else None


def kernel_location(each: RankStack) -> tuple[str, bool]:
    """Where the kernel shows the main thread, and whether it waits there."""
    thread = kernel_thread(each)
    return ("gone", False) if thread is None else kernel_wait(thread)
