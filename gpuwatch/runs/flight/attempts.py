"""Selects the dumps of the last attempt of one job; a folder may also contain those of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwatch.plain import plain
from gpuwatch.runs.flight.rank_dump import RankDump

MIN_ATTEMPT_DUMPS = 3
"""Number of dumps that a single newer (copied or stray) dump does not outweigh."""
GAP_S = 120.0
"""Seconds that separate two attempts: larger than clock differences in a cluster, smaller than a restart."""


def of_the_youngest_job(found: Sequence[tuple[str, RankDump]]) -> tuple[list[RankDump], list[str]]:
    """Return the dumps of the newest job, and notes about those left out.

    Each node may have its own series of dumps. Two series with the same rank belong to different jobs or
    attempts: the newer series counts, unless it is a single dump against at least `MIN_ATTEMPT_DUMPS`.

    Args:
        found: Series (`gpuwatch.runs.flight.dump_files.series_of`) and dump, the newest last.
    """
    every: dict[str, list[RankDump]] = {}
    for series, dump in reversed(found):
        every.setdefault(series, []).append(dump)
    kept: list[RankDump] = []
    words = []
    ranks: dict[int, str] = {}
    many = max(map(len, every.values()), default=0) >= MIN_ATTEMPT_DUMPS
    for series, dumps in sorted(every.items(), key=lambda each: many and len(each[1]) == 1):
        twice = next((ranks[dump.rank] for dump in dumps if dump.rank in ranks), None)
        if twice is None:
            kept += dumps
            ranks |= {dump.rank: series for dump in dumps}
        else:
            why = "has more dumps" if many and len(dumps) == 1 else "is younger"
            words.append(f"{plain(series)}*: another job's or attempt's, left out: {plain(twice)}* {why}")
    return kept, words


def of_the_last_attempt(dumps: Sequence[RankDump]) -> tuple[list[RankDump], list[str]]:
    """Return the dumps of the last attempt, and notes about those left out.

    A single dump next to at least `MIN_ATTEMPT_DUMPS` older ones is itself left out. A dump is of an earlier
    attempt if its rank had completed a collective that another rank entered minutes after the dump's last
    entry: no rank completes a collective alone.
    """
    begun = {id(dump): _began_s(dump) for dump in dumps if not dump.wrapped}
    last = max(
        (dump for dump in dumps if begun.get(id(dump)) is not None),
        key=lambda dump: begun[id(dump)] or 0.0,
        default=None,
    )
    if last is None:
        return list(dumps), []
    before_s = (begun[id(last)] or 0.0) - GAP_S
    kept: list[RankDump] = []
    earlier: list[RankDump] = []
    for dump in dumps:
        (earlier if _ended_s(dump) < before_s and _went_past(dump, last) else kept).append(dump)
    if len(kept) == 1 and len(earlier) >= MIN_ATTEMPT_DUMPS:
        return earlier, [f"{kept[0].file}: left out, another attempt's: it began after the end of the others"]
    return kept, [
        f"{dump.file}: left out, an earlier attempt's: the others began after its end" for dump in earlier
    ]


def _began_s(dump: RankDump) -> float | None:
    return min(_times(dump), default=None)


def _ended_s(dump: RankDump) -> float:
    return max(_times(dump), default=float("inf"))


def _times(dump: RankDump) -> Iterable[float]:
    return (
        op.created_s
        for history in dump.histories.values()
        for op in history.collectives.values()
        if op.created_s
    )


def _went_past(dump: RankDump, last: RankDump) -> bool:
    for group, history in dump.histories.items():
        other = last.histories.get(group)
        if other is not None and other.collectives and history.last > min(other.collectives):
            return True
    return False
