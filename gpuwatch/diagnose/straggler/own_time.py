"""Ranks that tell their own times: the one that computes or loads longer than its peers, or waits less.

The time of a whole step is equal on all ranks of a synchronous training; the timers inside of it are not. Who
is slow takes longer in a timer of its own work, and shorter in that of the collective where the others wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from statistics import median
from typing import TypeAlias

from gpuwatch.diagnose.condition import duration
from gpuwatch.diagnose.peers import ENOUGH
from gpuwatch.diagnose.straggler.unlike import Unlike, few
from gpuwatch.diagnose.training.pace import COMMUNICATION
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.progress import RankProgress

KEPT, LEAST = 5, 3
"""Told values of one timer that a median is taken of: a hiccup of the data loader is one of them."""
LATE_S, LATE_GAPS = 30.0, 3.0
"""A rank that has told nothing for so long, or so many of its gaps, says nothing about now."""
FORGOTTEN_S = 600.0
WAITS = (*COMMUNICATION, "barrier", "wait")
STEP = "step"
Timers: TypeAlias = dict[str, "deque[tuple[float, float]]"]
"""Timer -> (when, seconds) of the last told ones, oldest first."""


class OwnTimes:
    """What the ranks of every job told of late; `rounds` of the same telling count once."""

    def __init__(self) -> None:
        self._told: dict[str, dict[int, Timers]] = {}

    def look(self, fleet: Fleet, now: float) -> None:
        """Take in what is new, and forget who has been silent for long."""
        for voice in fleet.progress.voices.values():
            if voice.job is not None and voice.rank is not None and now - voice.heard_at <= FORGOTTEN_S:
                _take(self._told.setdefault(voice.job, {}).setdefault(voice.rank, {}), voice)
        for job, ranks in list(self._told.items()):
            for rank in [rank for rank, timers in ranks.items() if _silent(timers, now)]:
                del ranks[rank]
            if not ranks:
                del self._told[job]

    def unlike(self, now: float, limit_pct: float) -> Iterator[tuple[str, Unlike]]:
        """The ranks that stand out, with their jobs."""
        for job, ranks in self._told.items():
            times = {rank: medians(timers, now) for rank, timers in ranks.items()}
            for each in slow_ranks({rank: own for rank, own in times.items() if own}, limit_pct):
                yield job, each


def _take(timers: Timers, voice: RankProgress) -> None:
    told = dict(voice.phases)
    step = voice.values.get("step_time_s")
    if step is not None:
        told[STEP] = step
    for name, value in told.items():
        known = timers.setdefault(name, deque(maxlen=KEPT))
        if value.sure and value.value == value.value and (not known or value.at > known[-1][0]):
            known.append((value.at, value.value))


def _silent(timers: Timers, now: float) -> bool:
    return all(not known or now - known[-1][0] > FORGOTTEN_S for known in timers.values())


def medians(timers: Timers, now: float) -> dict[str, float]:
    """Seconds of each timer that was told often enough, and lately."""
    found = {}
    for name, known in timers.items():
        if len(known) < LEAST:
            continue
        gap = (known[-1][0] - known[0][0]) / (len(known) - 1)
        if now - known[-1][0] <= max(LATE_S, LATE_GAPS * gap):
            found[name] = median(seconds for _, seconds in known)
    return found


def slow_ranks(times: Mapping[int, Mapping[str, float]], limit_pct: float) -> Iterator[Unlike]:
    """Who stands out in any timer by a worthwhile part of the step.

    Args:
        times: Rank -> timer -> seconds, medians of late.
        limit_pct: A time over this share of the peers' median is slow; the part over 100 is also the share
            of the step that it must come to.
    """
    limit = limit_pct / 100.0 - 1.0
    if len(times) < ENOUGH:
        return
    step_s = median(own.get(STEP) or max(own.values()) for own in times.values())
    for name in sorted({name for own in times.values() for name in own}):
        known = {rank: own[name] for rank, own in times.items() if name in own}
        if len(known) < ENOUGH:
            continue
        usual = median(known.values())
        if any(word in name.lower() for word in WAITS):
            yield from _waits_least(name, known, usual, limit * step_s, step_s)
        elif usual > 0:
            yield from _longer(name, known, usual, limit, step_s)


def _longer(
    name: str, known: Mapping[int, float], usual: float, limit: float, step_s: float
) -> Iterator[Unlike]:
    slow = {
        rank: own for rank, own in known.items() if own > usual * (1 + limit) and own - usual > limit * step_s
    }
    if len(slow) > few(len(known)):
        return
    for rank, own in slow.items():
        yield Unlike(
            "time", rank, len(known) - 1, f"time in {name}", _told(own), _told(usual),
            f"at {own / usual:.2f}x its peers' time in {name}", (own - usual) / max(own, step_s),
            alike=len(slow),
        )  # fmt: skip


def _waits_least(
    name: str, known: Mapping[int, float], usual: float, gap_s: float, step_s: float
) -> Iterator[Unlike]:
    """The one for whom the others wait in a collective comes last and hardly waits itself."""
    (first, rank), (second, _) = sorted((own, rank) for rank, own in known.items())[:2]
    if usual - first > gap_s and second - first > gap_s / 2:
        yield Unlike(
            "last", rank, len(known) - 1, f"time in {name}", _told(first), _told(usual),
            f"last in {name}, where its peers wait {_told(usual - first)} a step for it",
            min(1.0, (usual - first) / step_s),
        )  # fmt: skip


def _told(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else duration(seconds)
