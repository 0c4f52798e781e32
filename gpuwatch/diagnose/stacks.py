"""Stacks of all ranks of a job merged: who is somewhere else than the others, the few before the many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwatch.diagnose.confidence import Confidence
from gpuwatch.diagnose.testimony import Testimony
from gpuwatch.diagnose.waits import kernel_wait
from gpuwatch.diagnose.wording import place, plural, ranges, ranks_text
from gpuwatch.runs.flight import NOT_THE_USERS
from gpuwatch.wire import ProcessStack, PythonThread, StackFrame

COLLECTIVES = frozenset(
    (
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "all_gather_single",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "reduce_scatter_single",
        "broadcast",
        "broadcast_object_list",
        "reduce",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "monitored_barrier",
        "send",
        "recv",
        "batch_isend_irecv",
    )
)
"""torch.distributed's functions in which a rank waits for others."""
ONE_TO_ONE = frozenset(("send", "recv", "batch_isend_irecv"))
"""Of those, where a rank waits for one other."""
OTHERS_WAIT = frozenset(("wait", "synchronize", "_engine_run_backward", "item"))
"""Where a rank is found when the collective that it waits for runs on the GPU."""
FEW = 0.25
"""Share of a job up to which ranks are believed to be the odd ones out."""
SHOWN_FRAMES = 12
PYTHON_STACKS = 'Python stacks: py-spy on the nodes (pip install py-spy), or --lend-py-spy "$(which py-spy)"'
MAX_WORLD = 1 << 16


@dataclass(frozen=True)
class RankStack:
    """One rank's process, and what was heard of it."""

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


@dataclass(frozen=True)
class Spot:
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
    spots: tuple[Spot, ...]
    """Those with the fewest ranks first."""
    unseen: tuple[RankStack, ...]
    """Ranks of which nothing was heard."""
    absent: tuple[int, ...]
    """Ranks that the job should have and that run on no node that answered."""
    by: str
    """python: compared by frames; kernel: by what the kernel says."""
    testimony: Testimony


def judge_stacks(stacks: Sequence[RankStack]) -> list[JobStacks]:
    """Every job by itself, the largest first. Frames are compared where all ranks of a job have some."""
    by_job: dict[str | None, list[RankStack]] = {}
    for each in sorted(stacks, key=lambda each: each.rank):
        by_job.setdefault(each.job, []).append(each)
    jobs = sorted(by_job.items(), key=lambda item: -len(item[1]))
    return [_job(job, ranks) for job, ranks in jobs]


def _job(job: str | None, ranks: Sequence[RankStack]) -> JobStacks:
    seen = [each for each in ranks if each.stack is not None]
    unseen = tuple(each for each in ranks if each.stack is None)
    frames = bool(seen) and all(main_thread(each) is not None for each in seen)
    spots = _spots(seen, frames=frames)
    by = "python" if frames else "kernel"
    world = max((each.world or 0 for each in ranks), default=0)
    absent = tuple(sorted(set(range(min(world, MAX_WORLD))) - {each.rank for each in ranks}))
    said = _gone(spots, absent) or _testimony(spots, unseen, by)
    if absent:
        said = replace(
            said, evidence=(*said.evidence, f"rank {ranges(absent)} runs on no node that answered")
        )
    return JobStacks(job, spots, unseen, absent, by, said)


def main_thread(each: RankStack) -> PythonThread | None:
    """The thread that trains."""
    python = each.stack.python if each.stack is not None else []
    return next((thread for thread in python if thread.main and thread.frames), None)


def _spots(seen: Sequence[RankStack], *, frames: bool) -> tuple[Spot, ...]:
    found: dict[tuple[str, bool, str | None], list[RankStack]] = {}
    for each in seen:
        thread = main_thread(each) if frames else None
        key = (*_kernel_spot(each), None) if thread is None else _python_spot(thread.frames)
        found.setdefault(key, []).append(each)
    spots = []
    for (what, waits, call), ranks in found.items():
        shown = next((thread for each in ranks if (thread := main_thread(each)) is not None), None)
        lines = [_line(frame) for frame in shown.frames[:SHOWN_FRAMES]] if shown is not None else []
        spots.append(Spot(what, tuple(lines), tuple(ranks), waits, call))
    return tuple(sorted(spots, key=lambda spot: (len(spot.ranks), spot.waits, spot.ranks[0].rank)))


def _python_spot(frames: Sequence[StackFrame]) -> tuple[str, bool, str | None]:
    """The innermost function, and the line of the user's code that called it; whether it waits, in what."""
    mine = next((n for n, frame in enumerate(frames) if not _foreign(frame)), None)
    if mine is None:
        called = _collective(frames)
        return f"in {_line(frames[0])}", called is not None, called
    if mine == 0:
        return f"in {_line(frames[0])}", False, None
    called = _collective(frames[:mine])
    waits = called is not None or any(frame.function in OTHERS_WAIT for frame in frames[:mine])
    return f"in {called or frames[0].function}, called by {_line(frames[mine])}", waits, called


def _collective(frames: Sequence[StackFrame]) -> str | None:
    """The outermost of torch's own functions that is a collective."""
    names = (frame.function for frame in reversed(frames) if "distributed" in frame.file)
    return next((name for name in names if name in COLLECTIVES), None)


def _foreign(frame: StackFrame) -> bool:
    return any(part in frame.file for part in NOT_THE_USERS)


def _kernel_spot(each: RankStack) -> tuple[str, bool]:
    thread = each.stack.threads[0] if each.stack is not None and each.stack.threads else None
    return ("gone", False) if thread is None else kernel_wait(thread)


def _line(frame: StackFrame) -> str:
    return f"{frame.function} ({frame.file.rpartition('/')[2]}:{frame.line})"


def _testimony(spots: Sequence[Spot], unseen: Sequence[RankStack], by: str) -> Testimony:
    total = sum(len(spot.ranks) for spot in spots)
    evidence = [_evidence(spot, total) for spot in spots[:8]]
    if unseen:
        evidence.append(f"{_named(unseen)}: {unseen[0].missing or 'not heard of'}")
    settle = [] if by == "python" else [PYTHON_STACKS]
    if not spots:
        return Testimony(
            "stacks", wrong=False, sentence="nothing was heard of any rank", evidence=tuple(evidence)
        )
    usual = spots[-1]
    if len(spots) == 1:
        sentence = f"all {plural(total, 'rank')} are {usual.what}"
        settle.append("the flight recorder's dumps (gpuwatch flight), or NCCL's RAS: who is behind there")
        return Testimony(
            "stacks", wrong=False, sentence=sentence, evidence=tuple(evidence), settle=tuple(settle)
        )
    odd = [spot for spot in spots[:-1] if not spot.waits] or list(spots[:1])
    ranks = [each for spot in odd for each in spot.ranks]
    few = len(ranks) <= FEW * total or (len(ranks) == 1 and total > 2)
    if len(usual.ranks) * 2 <= total or not few:
        stuck = None if unseen else _deadlock(spots, total, evidence)
        if stuck is not None:
            return stuck
        sentence = (
            f"no majority: {plural(total, 'rank')} are at {len(spots)} places, most of them {usual.what}"
        )
        return Testimony(
            "stacks", wrong=False, sentence=sentence, evidence=tuple(evidence), settle=tuple(settle)
        )
    word = "is" if len(ranks) == 1 else "are"
    what = odd[0].what if len(odd) == 1 else "elsewhere"
    rest = f"{len(usual.ranks)} of {plural(total, 'rank')}"
    return Testimony(
        witness="stacks",
        wrong=True,
        sentence=f"{_named(ranks)} {word} {what}, while {rest} are {usual.what}",
        culprits=tuple(each.rank for each in ranks),
        confidence=_confidence(usual, odd, unseen, by),
        evidence=tuple(evidence),
        settle=(*settle, "the same once more in a minute: whether they are still there"),
    )


def _deadlock(spots: Sequence[Spot], total: int, evidence: Sequence[str]) -> Testimony | None:
    """Every rank waits for others in torch: some for one other, and the rest in a collective for those."""
    paired = [spot for spot in spots if spot.call in ONE_TO_ONE]
    together = [spot for spot in spots if spot.call is not None and spot.call not in ONE_TO_ONE]
    if not paired or not together or len(paired) + len(together) < len(spots):
        return None
    ranks = sorted((each for spot in paired for each in spot.ranks), key=lambda each: each.rank)
    what = paired[0].what if len(paired) == 1 else "in sends and receives"
    rest = together[-1].what if len(together) == 1 else "in collectives"
    count = sum(len(spot.ranks) for spot in together)
    word = "is" if len(ranks) == 1 else "are"
    return Testimony(
        witness="stacks",
        wrong=True,
        sentence=f"all {total} ranks wait for each other: {_named(ranks)} {word} {what}, "
        f"while {count} {'is' if count == 1 else 'are'} {rest}",
        culprits=tuple(each.rank for each in ranks),
        confidence="medium",
        evidence=tuple(evidence),
        settle=(
            f"the order of sends and receives on {_named(ranks)}: who sends only after it has received",
            "the same once more in a minute: whether they are still there",
        ),
    )


def _gone(spots: Sequence[Spot], absent: Sequence[int]) -> Testimony | None:
    """All that are there wait together, and some are not there: those are whom they wait for."""
    if len(spots) != 1 or not absent or not spots[0].waits:
        return None
    count = len(spots[0].ranks)
    many = len(absent) > 1
    rest = f"all {plural(count, 'rank')} that do"
    who = f"ranks {ranges(absent)} run" if many else f"rank {absent[0]} runs"
    return Testimony(
        witness="stacks",
        wrong=True,
        sentence=f"{who} on no node that answered, while {rest} are {spots[0].what}",
        culprits=tuple(absent),
        confidence="medium" if len(absent) * 2 < count else "low",
        evidence=(_evidence(spots[0], count),),
        settle=("the nodes of these ranks, and their logs: did they end first",),
    )


def _confidence(usual: Spot, odd: Sequence[Spot], unseen: Sequence[RankStack], by: str) -> Confidence:
    if len(unseen) >= len([each for spot in odd for each in spot.ranks]):
        return "low"
    if not usual.waits:
        return "low"
    return "high" if by == "python" and not any(spot.waits for spot in odd) else "medium"


def _evidence(spot: Spot, total: int) -> str:
    stacks = [each.stack for each in spot.ranks if each.stack is not None]
    busy = [stack.cpu_pct for stack in stacks if stack.cpu_pct is not None]
    cpu = f", {_range(min(busy), max(busy))} % CPU" if busy else ""
    stack = f": {' <- '.join(spot.frames[:3])}" if spot.frames else ""
    return f"{len(spot.ranks)} of {total} {spot.what}{cpu} ({_named(spot.ranks)}){stack}"


def _range(low: float, high: float) -> str:
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


def _named(ranks: Sequence[RankStack]) -> str:
    """`rank 2 (gpu-001 GPU 2)`, `ranks 0-1, 3`."""
    first = ranks[0]
    if len(ranks) == 1:
        return place(first.rank, first.node, first.gpu)
    return ranks_text(each.rank for each in ranks)
