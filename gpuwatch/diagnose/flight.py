"""Flight-recorder dumps judged: which rank the job waits for, by majority vote, with what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwatch.diagnose.flight_groups import Crew, Problem, crews, problem_of
from gpuwatch.diagnose.flight_p2p import p2p_problems
from gpuwatch.diagnose.flight_words import (
    circle_testimony,
    healthy_testimony,
    nothing_testimony,
    testimony_of,
)
from gpuwatch.diagnose.testimony import Testimony
from gpuwatch.runs.flight import Dump


@dataclass(frozen=True)
class FlightVerdict:
    """The sentence, and every group that does not get on, its cause first."""

    testimony: Testimony
    problems: tuple[Problem, ...]
    crews: tuple[Crew, ...]


def judge_flight(dumps: Sequence[Dump], world: int | None = None) -> FlightVerdict:
    """Judge the dumps of one job.

    Groups are looked at one by one; where the rank that one group waits for waits in another group itself,
    that other group is the cause. Of several causes the one that was blocked first comes first.

    Args:
        dumps: One of each rank, as many as there are.
        world: Ranks of the job, where the dumps may not tell (gloo, the last ranks' dumps missing).
    """
    if not dumps:
        return FlightVerdict(nothing_testimony(), (), ())
    groups = crews(dumps, world)
    problems = [problem for crew in groups for problem in _problems(crew)]
    if not problems:
        return FlightVerdict(healthy_testimony(dumps, groups), (), tuple(groups))
    roots, explained = _roots(problems)
    newest = {dump.rank: dump.newest for dump in dumps if dump.newest is not None}
    if roots:
        testimony = testimony_of(roots[0], roots[1:], explained, newest)
    else:
        testimony = circle_testimony(_circle(explained), newest)
    return FlightVerdict(testimony, (*roots, *explained), tuple(groups))


def _problems(crew: Crew) -> list[Problem]:
    found = problem_of(crew)
    return ([] if found is None else [found]) + list(p2p_problems(crew))


def _roots(problems: list[Problem]) -> tuple[list[Problem], list[Problem]]:
    """The problems that no other explains, and the others; each in the order in which they began.

    A dump that is absent says nothing about where its rank waits, and groups in which everybody is together
    say less than any other: both come last.
    """
    waits: dict[int, set[int]] = {}
    for number, problem in enumerate(problems):
        for rank in problem.waiting:
            waits.setdefault(rank, set()).add(number)
    roots: list[Problem] = []
    explained: list[Problem] = []
    for number, problem in enumerate(problems):
        others = [waits.get(rank, set()) - {number} for rank in problem.culprits]
        follows = problem.kind in {"missing", "p2p", "behind", "late"} and others and all(others)
        (explained if follows else roots).append(problem)
    return sorted(roots, key=_order), sorted(explained, key=_order)


def _order(problem: Problem) -> tuple[int, float]:
    weak = {"stalled": 2, "absent": 1}.get(problem.kind, 0)
    return weak, problem.since_s if problem.since_s is not None else float("inf")


def _circle(problems: list[Problem]) -> list[Problem]:
    """Follow whom each waits for until a problem comes again: that loop is the deadlock."""
    way = [problems[0]]
    while True:
        culprit = way[-1].culprits[0]
        following = next(
            (each for each in problems if culprit in each.waiting and each is not way[-1]), way[-1]
        )
        if following in way:
            return way[way.index(following) :]
        way.append(following)
