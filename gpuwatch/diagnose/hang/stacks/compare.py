"""Compare the stacks of all ranks of a job: which ranks are in another place than the majority.

Example: ranks 0, 1 and 3 are in `all_reduce` (train.py:41), rank 2 is in `data_loader_next` (train.py:25):
three wait in a collective that one has not entered, and the verdict names rank 2. With two idle ranks in each
of two collectives there is no majority: they wait for each other, and no rank is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuwatch.diagnose.hang.stacks.groups import (
    JobStacks,
    RankStack,
    StackGroup,
    kernel_location,
    kernel_thread,
    main_thread,
    only_one_off_the_network,
    stack_groups,
    stopped_ranks,
)
from gpuwatch.diagnose.hang.stacks.kernel_waits import HELD_STATES, kernel_wait, waits_on_socket
from gpuwatch.diagnose.hang.stacks.locations import ONE_TO_ONE
from gpuwatch.diagnose.model.rank_index import MAX_WORLD
from gpuwatch.diagnose.model.text import guessed, place, ranks_text
from gpuwatch.diagnose.model.verdict import Confidence, Verdict
from gpuwatch.number_text import plural
from gpuwatch.wire import NOT_RECORDED, KernelThread

MAX_ODD_SHARE = 0.25
"""Largest share of a job's ranks that can be outliers."""
STILL_PCT = 10.0
"""Percent of a core; a rank whose threads use less moves no data."""
AGAIN = "collect the stacks again in a minute: are the ranks still in the same calls?"
PYTHON_STACKS = (
    'Python stacks: py-spy on the nodes (pip install py-spy), or --upload-py-spy "$(which py-spy)"'
)


def judge_stacks(stacks: Sequence[RankStack]) -> list[JobStacks]:
    """Judge the stacks of each job separately; return the jobs, largest first.

    Python frames are compared if all ranks of a job have some, otherwise kernel states.
    """
    by_job: dict[str | None, list[RankStack]] = {}
    for each in sorted(stacks, key=lambda each: each.rank):
        by_job.setdefault(each.job, []).append(each)
    jobs = sorted(by_job.items(), key=lambda item: -len(item[1]))
    return [_job(job, ranks) for job, ranks in jobs]


def _job(job: str | None, ranks: Sequence[RankStack]) -> JobStacks:
    seen = [each for each in ranks if each.stack is not None]
    unseen = tuple(each for each in ranks if each.stack is None)
    frames = bool(seen) and all(main_thread(each) is not None for each in seen)
    spots = stack_groups(seen, frames=frames)
    by = "python" if frames else "kernel"
    world = max((each.world or 0 for each in ranks), default=0)
    absent = tuple(sorted(set(range(min(world, MAX_WORLD))) - {each.rank for each in ranks}))
    stated = _gone(spots, absent) or _stack_verdict(spots, unseen, by)
    if absent and stated.wrong and stated.culprits and _may_await_others(stated, spots, by):
        stated = _waited_for(absent, spots, "waiting", "low")
    if any(each.inferred for each in ranks):
        stated = replace(stated, sentence=guessed(stated.sentence), confidence="low")
    if absent:
        stated = replace(stated, evidence=(*stated.evidence, f"{_numbers(absent)} on no node that answered"))
    return JobStacks(job, spots, unseen, absent, by, stated)


def _stack_verdict(spots: Sequence[StackGroup], unseen: Sequence[RankStack], by: str) -> Verdict:
    total = sum(len(spot.ranks) for spot in spots)
    evidence = [_evidence(spot, total) for spot in spots[:8]]
    evidence += [
        words for spot in spots[:8] if not spot.waits for each in spot.ranks[:8] for words in _held(each)
    ]
    if unseen:
        evidence.append(f"{_named(unseen)}: {unseen[0].missing or 'no answer'}")
    settle = [] if by == "python" else [PYTHON_STACKS]
    if not spots:
        unrecorded = {each.missing for each in unseen} == {NOT_RECORDED}
        sentence = f"{NOT_RECORDED}: the ranks' stacks" if unrecorded else "no rank answered"
        return Verdict("stacks", wrong=False, sentence=sentence, evidence=tuple(evidence))
    usual = spots[-1]
    if len(spots) == 1:
        all_of = "the one rank that answered is" if total == 1 else f"all {total} ranks are"
        settle.append("the flight recorder's dumps (gpuwatch flight), or NCCL's RAS: which rank is behind")
        return Verdict(
            "stacks",
            wrong=False,
            sentence=f"{all_of} {usual.what}",
            evidence=tuple(evidence),
            settle=tuple(settle),
        )
    waiting = [spot for spot in spots if spot.waits]
    alone = [spot for spot in spots if not spot.waits]
    odd = alone if alone and waiting else list(spots[:1])
    rest = waiting if alone and waiting else [usual]
    ranks = sorted((each for spot in odd for each in spot.ranks), key=lambda each: each.rank)
    others = sum(len(spot.ranks) for spot in rest)
    few = len(ranks) <= MAX_ODD_SHARE * total or (len(ranks) == 1 and total > 2)
    whole = not unseen and all(each.world in (None, total) for each in ranks)
    of_two = total == 2 and whole and rest[0].call is not None and not odd[0].waits
    if (others * 2 <= total or not few) and not of_two:
        return _no_majority(spots, unseen, evidence, settle)
    word = "is" if len(ranks) == 1 else "are"
    what = odd[0].what if len(odd) == 1 else "elsewhere"
    where = usual.what if len(rest) == 1 else f"waiting for others, most of them {rest[-1].what}"
    rest_of_them = "the other one is" if of_two else f"{others} of {total} ranks are"
    return Verdict(
        source="stacks",
        wrong=True,
        sentence=f"{_named(ranks)} {word} {what}, while {rest_of_them} {where}",
        culprits=tuple(each.rank for each in ranks),
        confidence=_confidence(rest, odd, unseen, by),
        evidence=tuple(evidence),
        settle=(
            *settle,
            *_other_group(rest, odd),
            AGAIN,
        ),
    )


def _no_majority(
    spots: Sequence[StackGroup], unseen: Sequence[RankStack], evidence: Sequence[str], settle: Sequence[str]
) -> Verdict:
    """Return the verdict where no location has the majority: a deadlock, stopped ranks, or no culprit."""
    total = sum(len(spot.ranks) for spot in spots)
    stuck = None if unseen else _deadlock(spots, total, evidence)
    if stuck is not None:
        return stuck
    odd = stopped_ranks(spots)
    confidence: Confidence = "medium" if odd else "low"
    odd = odd or ([] if unseen else only_one_off_the_network(spots))
    if odd:
        what = ", ".join(
            dict.fromkeys(spot.what for spot in spots if any(each in spot.ranks for each in odd))
        )
        rest = f"the other {total - len(odd)} of {total} ranks wait or run"
        return Verdict(
            source="stacks",
            wrong=True,
            sentence=f"{_named(odd)} {'is' if len(odd) == 1 else 'are'} {what}; {rest}",
            culprits=tuple(each.rank for each in odd),
            confidence=confidence,
            evidence=tuple(evidence),
            settle=(*settle, AGAIN),
        )
    apart = not unseen and all(spot.call is not None for spot in spots) and _still(spots)
    most = f"{len(spots[-1].ranks)} of them {spots[-1].what}"
    if apart:
        sentence = f"all {total} ranks wait for each other in {len(spots)} different calls, {most}"
        settle = ["the flight recorder's dumps (gpuwatch flight): which rank left out a call", *settle]
    else:
        sentence = f"no majority: {plural(total, 'rank')} are at {len(spots)} places, {most}"
    return Verdict("stacks", wrong=apart, sentence=sentence, evidence=tuple(evidence), settle=tuple(settle))


def _still(spots: Sequence[StackGroup]) -> bool:
    """Return True if every rank takes less than `STILL_PCT` of a core: data in transit costs CPU time.

    A rank whose CPU time is unknown counts as still.
    """
    stacks = [each.stack for spot in spots for each in spot.ranks if each.stack is not None]
    return all((stack.cpu_pct or 0.0) < STILL_PCT for stack in stacks)


def _other_group(rest: Sequence[StackGroup], odd: Sequence[StackGroup]) -> tuple[str, ...]:
    """Return a check that separates culprits from victims if both wait in the same call; else ()."""
    if not _may_be_victims(rest, odd):
        return ()
    return (
        "the flight recorder's dumps (gpuwatch flight): whether a rank left out a call of its own group, "
        f"for which {_named(odd[0].ranks)} now {'wait' if len(odd[0].ranks) > 1 else 'waits'}",
    )


def _may_be_victims(rest: Sequence[StackGroup], odd: Sequence[StackGroup]) -> bool:
    return odd[0].waits and odd[0].call is not None and odd[0].call == rest[-1].call


def _deadlock(spots: Sequence[StackGroup], total: int, evidence: Sequence[str]) -> Verdict | None:
    """Return the deadlock verdict if all ranks wait in torch, some for a single peer, others in a collective.

    Else None.
    """
    paired = [spot for spot in spots if spot.call in ONE_TO_ONE]
    together = [spot for spot in spots if spot.call is not None and spot.call not in ONE_TO_ONE]
    if not paired or not together or len(paired) + len(together) < len(spots):
        return None
    ranks = sorted((each for spot in paired for each in spot.ranks), key=lambda each: each.rank)
    what = paired[0].what if len(paired) == 1 else "in sends and receives"
    rest = together[-1].what if len(together) == 1 else "in collectives"
    count = sum(len(spot.ranks) for spot in together)
    word = "is" if len(ranks) == 1 else "are"
    return Verdict(
        source="stacks",
        wrong=True,
        sentence=f"all {total} ranks wait for each other: {_named(ranks)} {word} {what}, "
        f"while {count} {'is' if count == 1 else 'are'} {rest}",
        culprits=tuple(each.rank for each in ranks),
        confidence="medium",
        evidence=tuple(evidence),
        settle=(
            f"check on {_named(ranks)} which rank receives before it sends, "
            "and whether another rank never sends",
            AGAIN,
        ),
    )


def _gone(spots: Sequence[StackGroup], absent: Sequence[int]) -> Verdict | None:
    """Return the verdict if all present ranks wait together and some ranks are missing; else None."""
    if len(spots) != 1 or not absent or not spots[0].waits:
        return None
    sure: Confidence = "medium" if len(absent) * 2 < len(spots[0].ranks) else "low"
    return _waited_for(absent, spots, spots[0].what, sure)


def _may_await_others(stated: Verdict, spots: Sequence[StackGroup], by: str) -> bool:
    """Return True if the ranks that the verdict names may themselves wait for missing ranks."""
    if by == "python":
        return stated.confidence == "low"
    named = [each for spot in spots for each in spot.ranks if each.rank in stated.culprits]
    threads = [kernel_thread(each) for each in named]
    polls = all(thread is not None and waits_on_socket(thread) for thread in threads)
    return stated.confidence == "low" or (bool(named) and polls)


def _waited_for(
    absent: Sequence[int], spots: Sequence[StackGroup], what: str, confidence: Confidence
) -> Verdict:
    count = sum(len(spot.ranks) for spot in spots)
    rest = f"all {plural(count, 'rank')} that do"
    return Verdict(
        source="stacks",
        wrong=True,
        sentence=f"{_numbers(absent)} on no node that answered, while {rest} are {what}",
        culprits=tuple(absent),
        confidence=confidence,
        evidence=tuple(_evidence(spot, count) for spot in spots[:8]),
        settle=("the nodes of these ranks, and their logs: did they end first",),
    )


def _confidence(
    rest: Sequence[StackGroup], odd: Sequence[StackGroup], unseen: Sequence[RankStack], by: str
) -> Confidence:
    if len(unseen) >= len([each for spot in odd for each in spot.ranks]):
        return "low"
    if not all(spot.waits for spot in rest):
        return "medium" if all(map(_may_wait, rest)) and not any(map(_may_wait, odd)) else "low"
    if _may_be_victims(rest, odd):
        return "low"
    alone = len(rest) == len(rest[0].ranks) == 1
    if len(rest) > 1 or alone or any(spot.waits for spot in odd):
        return "medium"
    return "high" if by == "python" else "medium"


def _may_wait(spot: StackGroup) -> bool:
    """Return True if, by its kernel state, each rank of a group may be one that waits for other ranks."""
    return all(kernel_location(each)[1] for each in spot.ranks)


def _evidence(spot: StackGroup, total: int) -> str:
    stacks = [each.stack for each in spot.ranks if each.stack is not None]
    busy = [stack.cpu_pct for stack in stacks if stack.cpu_pct is not None]
    cpu = f", {_range(min(busy), max(busy))} % CPU" if busy else ""
    stack = f": {' <- '.join(spot.frames[:3])}" if spot.frames else ""
    return f"{len(spot.ranks)} of {total} {spot.what}{cpu}{_call(spot)} ({_named(spot.ranks)}){stack}"


def _held(each: RankStack) -> Iterator[str]:
    """Yield text about each child process of a rank that is stopped or stuck, at most two."""
    for child in held_children(each)[:2]:
        yield f"process {child.tid} ({child.name}) of rank {each.rank} is {kernel_wait(child)[0]}"


def held_children(each: RankStack) -> list[KernelThread]:
    """Return the child processes of a rank that are stopped or stuck (not ended ones)."""
    started = each.stack.children if each.stack is not None else []
    return [child for child in started if child.state in HELD_STATES and child.state != "Z"]


def _call(spot: StackGroup) -> str:
    """Return text with the system call that a group's ranks are in.

    Empty if they wait for other ranks by their Python frames, have none, or are in different calls, or if the
    description of the group already names the call.
    """
    if not spot.frames or spot.waits:
        return ""
    waits = {kernel_wait(thread)[0] for each in spot.ranks if (thread := kernel_thread(each)) is not None}
    (words,) = waits if len(waits) == 1 else ("",)
    return f", {words}" if words and words not in spot.what else ""


def _range(low: float, high: float) -> str:
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


def _numbers(ranks: Sequence[int]) -> str:
    """Return `rank 2 runs`, or `ranks 0-1, 3 run`."""
    return f"{ranks_text(ranks)} run{'s' * (len(ranks) == 1)}"


def _named(ranks: Sequence[RankStack]) -> str:
    """Return the ranks as text: one with its place, `rank 2 (gpu-001 GPU 2)`, several as `ranks 0-1, 3`."""
    first = ranks[0]
    if len(ranks) == 1:
        return place(first.rank, first.node, first.gpu)
    return ranks_text(each.rank for each in ranks)
