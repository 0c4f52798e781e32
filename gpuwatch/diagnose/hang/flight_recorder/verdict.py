"""Judge flight-recorder dumps: which rank the job waits for, by majority among the available dumps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.flight_recorder.groups import Problem, ProcessGroup, problem_of, process_groups
from gpuwatch.diagnose.hang.flight_recorder.p2p import p2p_problems
from gpuwatch.diagnose.hang.flight_recorder.text import (
    circle_verdict,
    healthy_verdict,
    nothing_verdict,
    problem_verdict,
)
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.runs.flight.rank_dump import RankDump

MAY_FOLLOW = frozenset({"missing", "p2p", "behind", "late"})
"""Kinds of problems whose culprits may themselves be blocked elsewhere."""


class FlightAnalysis(Struct, frozen=True):
    """The verdict on a job's dumps, all process groups, and the problems of blocked ones, the cause first."""

    verdict: Verdict
    problems: tuple[Problem, ...]
    process_groups: tuple[ProcessGroup, ...]


def judge_flight(
    dumps: Sequence[RankDump], world: int | None = None, unread: Collection[int] = ()
) -> FlightAnalysis:
    """Return the analysis of the dumps of one job.

    Groups are judged one by one. If the rank that one group waits for waits in another group, that other
    group is the cause. Of several causes, the one that blocked first comes first.

    Args:
        dumps: At most one dump per rank.
        world: Number of ranks of the job; None: as the dumps show (gloo and a missing last rank hide it).
        unread: Ranks whose dump may exist, but could not be read: that they left none is no evidence.
    """
    if not dumps:
        return FlightAnalysis(nothing_verdict(), (), ())
    groups = process_groups(dumps, world, frozenset(unread))
    problems = [problem for process_group in groups for problem in _problems(process_group)]
    if not problems:
        return FlightAnalysis(healthy_verdict(dumps, groups), (), tuple(groups))
    roots, explained = _roots(problems)
    newest = {dump.rank: dump.newest for dump in dumps if dump.newest is not None}
    if roots:
        verdict = problem_verdict(roots[0], roots[1:], explained, newest)
    else:
        verdict = circle_verdict(_circle(explained), newest)
    return FlightAnalysis(verdict, (*roots, *explained), tuple(groups))


def _problems(process_group: ProcessGroup) -> list[Problem]:
    found = problem_of(process_group)
    return ([] if found is None else [found]) + list(p2p_problems(process_group))


def _roots(problems: list[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Return the problems that no other one explains, and the others; each in the order of `_order`.

    Ranks that wait in another group themselves are no culprits. A group that waits only for such ranks is
    explained, and so is one that waits for the same rank as the first root.
    """
    waits: dict[int, set[int]] = {}
    for number, problem in enumerate(problems):
        for rank in problem.waiting:
            waits.setdefault(rank, set()).add(number)
    roots: list[Problem] = []
    explained: list[Problem] = []
    for number, problem in enumerate(problems):
        held = [rank for rank in problem.culprits if waits.get(rank, set()) - {number}]
        if problem.kind not in MAY_FOLLOW or not held:
            roots.append(problem)
        elif len(held) == len(problem.culprits):
            explained.append(problem)
        else:
            free = tuple(rank for rank in problem.culprits if rank not in held)
            roots.append(replace(problem, culprits=free, held=tuple(held)))
    roots.sort(key=_order)
    same = [each for each in roots[1:] if each.culprits and set(each.culprits) <= set(roots[0].culprits)]
    roots = [each for each in roots if all(each is not other for other in same)]
    return roots, sorted([*same, *explained], key=_order)


def _order(problem: Problem) -> tuple[int, float]:
    """Return the sort key of a problem: by strength of evidence, then by time.

    A missing dump is weak evidence, and a group in which all are together is weaker still.
    """
    weak = {"stalled": 2, "absent": 1}.get(problem.kind, 0)
    return weak, problem.since_s if problem.since_s is not None else float("inf")


def _circle(problems: list[Problem]) -> list[Problem]:
    """Return the cycle of groups that wait for each other (a deadlock).

    If there is no cycle, the list has one group.
    """
    way = [problems[0]]
    while True:
        culprit = way[-1].culprits[0]
        following = next(
            (each for each in problems if culprit in each.waiting and each is not way[-1]), way[-1]
        )
        if following in way:
            return way[way.index(following) :]
        way.append(following)
