"""Which dumps belong together: a folder keeps those of earlier attempts and of other jobs, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwatch.plain import plain
from gpuwatch.runs.flight import Dump

GAP_S = 120.0
"""More than clocks of one cluster differ, less than a restart after a timeout takes."""


def of_the_youngest_job(found: Sequence[tuple[str, Dump]]) -> tuple[list[Dump], list[str]]:
    """The dumps of the series that can be one job's, and words about those that are left out.

    Nodes may have series of their own. Two that hold the same rank are of two jobs or attempts: the one with
    the younger dumps counts.

    Args:
        found: Series (`gpuwatch.runs.flight_files.series_of`) and dump, the youngest last.
    """
    every: dict[str, list[Dump]] = {}
    for series, dump in reversed(found):
        every.setdefault(series, []).append(dump)
    kept: list[Dump] = []
    words = []
    ranks: dict[int, str] = {}
    for series, dumps in every.items():
        twice = next((ranks[dump.rank] for dump in dumps if dump.rank in ranks), None)
        if twice is None:
            kept += dumps
            ranks |= {dump.rank: series for dump in dumps}
        else:
            words.append(
                f"{plain(series)}*: another job's or attempt's, left out: {plain(twice)}* is younger"
            )
    return kept, words


def of_the_last_attempt(dumps: Sequence[Dump]) -> tuple[list[Dump], list[Dump]]:
    """The dumps of the attempt that began last, and those that were written by an earlier one.

    A dump is an earlier attempt's where its rank was beyond a collective that another rank came to only
    minutes after the dump's last entry: nobody gets past a collective alone.
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
    kept: list[Dump] = []
    earlier: list[Dump] = []
    for dump in dumps:
        (earlier if _ended_s(dump) < before_s and _went_past(dump, last) else kept).append(dump)
    return kept, earlier


def _began_s(dump: Dump) -> float | None:
    return min(_times(dump), default=None)


def _ended_s(dump: Dump) -> float:
    return max(_times(dump), default=float("inf"))


def _times(dump: Dump) -> Iterable[float]:
    return (op.created_s for lane in dump.lanes.values() for op in lane.collectives.values() if op.created_s)


def _went_past(dump: Dump, last: Dump) -> bool:
    for group, lane in dump.lanes.items():
        other = last.lanes.get(group)
        if other is not None and other.collectives and lane.last > min(other.collectives):
            return True
    return False
