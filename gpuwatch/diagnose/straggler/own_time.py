"""Stragglers by logged timers: the rank that computes or loads longer than its peers, or waits less.

The time of a whole step is equal on all ranks of a synchronous training; the timers inside it are not. A slow
rank takes longer in a timer of its own work, and less in that of the collective where the others wait.

Example: steps take 0.4 s; `forward` takes 0.20 s on ranks 0-6 and 0.35 s on rank 7, `all_reduce` 0.16 s and
0.01 s (medians). With `peer_time_pct` 110, rank 7 stands out twice: it is 0.15 s (more than 10 % of the
peers' time and of the step) over its peers in `forward`, and it waits least in `all_reduce`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TypeAlias

from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS
from gpuwatch.diagnose.straggler.outliers import Outlier, Sign, max_outliers
from gpuwatch.diagnose.straggler.stepping_jobs import job_of
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import KEPT_TIMINGS, RankProgress
from gpuwatch.fleet.logs.step_timers import COMMUNICATION
from gpuwatch.number_text import duration

Times: TypeAlias = dict[str, dict[int, dict[str, float]]]
"""Job -> rank -> timer -> median seconds."""

PAST_VALUES = 64
"""Newest values of a timer that are judged."""
MIN_VALUES = 3
"""Least logged values of a timer that a median needs; one may be a hiccup of the data loader."""
TIMERS_STALE_S, LATE_GAPS = 30.0, 3.0
"""Seconds, and number of usual gaps, without a report after which a rank's timers are stale."""
WAITS = (*COMMUNICATION, "barrier", "wait")
STEP = "step"
RECENT_VALUES = 5


def unlike_by_own_times(fleet: Fleet, now: float, limit_pct: float) -> Iterator[tuple[str, Outlier]]:
    """Yield (job, outlier) for the ranks that stand out by their logged timers."""
    jobs: dict[str, dict[int, dict[str, float]]] = {}
    for writer in fleet.progress.writers.values():
        own = {} if writer.rank is None else medians(writer, now)
        job = job_of(writer, fleet) if own else None
        if job is not None and writer.rank is not None:
            jobs.setdefault(job, {})[writer.rank] = own
    for job, times in jobs.items():
        for each in slow_ranks(times, limit_pct):
            yield job, each


def medians(writer: RankProgress, now: float) -> dict[str, float]:
    """Return timer -> median seconds, for each timer that was logged often enough and recently.

    The whole step is included only if the log reports it.
    """
    reported = {name: values[-KEPT_TIMINGS:] for name, values in timed_values(writer).items()}
    if "step_time_s" in writer.values:
        steps = [writer.steps[n] for n in range(-min(RECENT_VALUES, len(writer.steps)), 0)]
        reported[STEP] = [(step.at, step.took_s) for step in steps if step.took_s is not None]
    return {
        name: median(seconds for _, seconds in known)
        for name, known in reported.items()
        if _of_now(known, now)
    }


def timed_values(writer: RankProgress) -> dict[str, list[tuple[float, float]]]:
    """Return timer -> (monotonic seconds, its seconds), oldest first, also from before the session."""
    known: dict[str, list[tuple[float, float]]] = {}
    for at, timers in writer.past_timings:
        for name, seconds in timers.items():
            known.setdefault(name, []).append((at, seconds))
    for name, live in writer.timings.items():
        known[name] = [each for each in known.get(name, ()) if not live or each[0] < live[0].at]
        known[name] += [(value.at, value.value) for value in live]
    return known


def _of_now(known: Sequence[tuple[float, float]], now: float) -> bool:
    if len(known) < MIN_VALUES or not all(isfinite(seconds) for _, seconds in known):
        return False
    gap_s = (known[-1][0] - known[0][0]) / (len(known) - 1)
    return now - known[-1][0] <= max(TIMERS_STALE_S, LATE_GAPS * gap_s)


def lasting_by_logs(
    fleet: Fleet, now: float, limit_pct: float, lasted_s: float
) -> set[tuple[str, int, Sign]]:
    """Return (job, rank, sign) of what the logs of before the session show to have lasted for `lasted_s`.

    Example: gpuwatch is started while rank 3 has taken 1.5 s longer than its peers in `data` for minutes. The
    medians of both halves of the last `lasted_s` seconds, by the lines' own times, name it. For slow steps
    the halves have `MIN_VALUES` usual gaps each.
    """
    halves: tuple[Times, Times] = ({}, {})
    for writer in fleet.progress.writers.values():
        job = job_of(writer, fleet) if writer.rank is not None and writer.past_timings else None
        if job is not None and writer.rank is not None:
            for half, found in zip(halves, _halves(writer, now, lasted_s), strict=True):
                if found:
                    half.setdefault(job, {})[writer.rank] = found
    older, newer = (
        {(job, each.rank, each.sign) for job, times in half.items() for each in slow_ranks(times, limit_pct)}
        for half in halves
    )
    return older & newer


def _halves(writer: RankProgress, now: float, lasted_s: float) -> list[dict[str, float]]:
    """Return timer -> median seconds in the older and in the newer half of the last `lasted_s` seconds.

    The halves are longer for rare values: each has room for `MIN_VALUES` of them. Timers are left out that
    have fewer in a half.
    """
    known = timed_values(writer)
    known[STEP] = [
        (step.at, step.took_s) for step in writer.past if step.took_s is not None and isfinite(step.at)
    ]
    found: list[dict[str, float]] = [{}, {}]
    for name, every in known.items():
        values = [each for each in every if isfinite(each[1])][-PAST_VALUES:]
        if not _of_now(values, now):
            continue
        gap_s = median(after - before for (before, _), (after, _) in pairwise(values))
        half_s = max(lasted_s / 2, MIN_VALUES * gap_s)
        end = values[-1][0]
        parts = (
            [seconds for at, seconds in values if end - 2 * half_s <= at < end - half_s],
            [seconds for at, seconds in values if at >= end - half_s],
        )
        if min(map(len, parts)) >= MIN_VALUES:
            for half, part in zip(found, parts, strict=True):
                half[name] = median(part)
    return found


def slow_ranks(times: Mapping[int, Mapping[str, float]], limit_pct: float) -> Iterator[Outlier]:
    """Yield the ranks that stand out in a timer by a significant part of the step.

    Args:
        times: Rank -> timer -> seconds, recent medians.
        limit_pct: A time over this percentage of the peers' median is slow. The time must also exceed the
            median by `limit_pct` - 100 percent of the step.
    """
    limit = limit_pct / 100.0 - 1.0
    if len(times) < MIN_PEERS:
        return
    step_s = median(own.get(STEP) or max(own.values()) for own in times.values())
    for name in sorted({name for own in times.values() for name in own}):
        known = {rank: own[name] for rank, own in times.items() if name in own}
        if len(known) < MIN_PEERS:
            continue
        usual = median(known.values())
        if any(word in name.lower() for word in WAITS):
            yield from _waits_least(name, known, usual, limit * step_s, step_s)
        elif usual > 0:
            yield from _longer(name, known, usual, limit, step_s)


def _longer(
    name: str, known: Mapping[int, float], usual: float, limit: float, step_s: float
) -> Iterator[Outlier]:
    slow = {
        rank: own for rank, own in known.items() if own > usual * (1 + limit) and own - usual > limit * step_s
    }
    if len(slow) > max_outliers(len(known)):
        return
    for rank, own in slow.items():
        yield Outlier(
            "time", rank, len(known) - 1, f"time in {name}", _reported(own), _reported(usual),
            f"at {own / usual:.2f}x its peers' time in {name}", (own - usual) / max(own, step_s),
            alike=len(slow),
        )  # fmt: skip


def _waits_least(
    name: str, known: Mapping[int, float], usual: float, gap_s: float, step_s: float
) -> Iterator[Outlier]:
    """Yield the rank that hardly waits in a collective: it arrives last, and the others wait for it."""
    (first, rank), (second, _) = sorted((own, rank) for rank, own in known.items())[:2]
    if usual - first > gap_s and second - first > gap_s / 2:
        yield Outlier(
            "last", rank, len(known) - 1, f"time in {name}", _reported(first), _reported(usual),
            f"last in {name}: its peers wait {_reported(usual - first)} per step for it",
            min(1.0, (usual - first) / step_s),
        )  # fmt: skip


def _reported(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else duration(seconds)
