"""Estimates the times of matches without a nearby timestamp, within the bounds of the whole job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gpuwatch.agent.logs.matching.ruleset import CompiledRule
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.times import COPIED_S, Times, bound_of, likely_time, needs_time
from gpuwatch.runs.model.containment import contained
from gpuwatch.runs.model.record import Match, RecoveryLine, Row, gathered
from gpuwatch.runs.placement.file_nodes import FileOwner
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.scan.reading import PartRead
from gpuwatch.runs.scan.scan_file import ScanFile, owner_of
from gpuwatch.runs.steps.step_series import steps_in


def rows_of(files: Sequence[ScanFile], rules: dict[str, CompiledRule]) -> dict[str, list[Row]]:
    """Return file -> its findings; undated ones have the best time that the whole job allows."""
    last_line: float | None = None
    spoke: dict[FileOwner, float] = {}
    for file in files:
        last = max((read.last_time for read in file.in_order() if read.last_time is not None), default=None)
        if last is not None and not path_places(file.log.inner).kernel:
            last_line = last if last_line is None else max(last_line, last)
            who = speaker(file.log)
            spoke[who] = max(last, spoke.get(who, last))
    job_end = last_line
    if stamps_are_the_writers(files):
        job_end = max(
            (file.log.mtime for file in files if not path_places(file.log.inner).kernel), default=job_end
        )
    rows: dict[str, list[Row]] = {}
    for file in files:
        before = spoke.get(speaker(file.log))
        found, fault = contained(_rows, file, rules, before, job_end)
        rows[file.log.name] = found or []
        file.add(fault)
    return rows


def _rows(
    file: ScanFile, rules: dict[str, CompiledRule], before: float | None, job_end: float | None
) -> list[Row]:
    """Return the findings of one file. `before`, `job_end`: the same as of `dated`."""
    events = [event for read in file.in_order() for event in dated(read, file.log, before, job_end)]
    steps = steps_in([each for read in file.in_order() for each in read.series.values()])
    return gathered(events, rules, steps)


def stamps_are_the_writers(files: Sequence[ScanFile]) -> bool:
    """Return True if the files' modification times are those of their last lines, for most of them.

    The files are then originals, not copies.
    """
    lasts = [
        abs(file.log.mtime - max(times))
        for file in files
        if (times := [read.last_time for read in file.in_order() if read.last_time is not None])
    ]
    return sum(late <= COPIED_S for late in lasts) * 2 > len(lasts)


def speaker(log: LogPath) -> FileOwner:
    """Return a key of a file's rank by its path; stdout.log and stderr.log of one rank have the same key."""
    owner = owner_of(log)
    own = owner.rank is None and owner.local_rank is None
    return replace(owner, file=log.name if own else "", hosts=())


def dated(
    read: PartRead, log: LogPath, before: float | None, job_end: float | None
) -> Iterable[Match | RecoveryLine]:
    """Yield the matches of a part; those without a nearby timestamp get a likely time.

    Args:
        read: The part with the matches.
        log: The file of the part.
        before: When the same rank last logged a time, in this file or its other one (unix seconds).
        job_end: When the job ended, by its lines or else its files (unix seconds).
    """
    for event in read.events:
        for row in event.rows if isinstance(event, Match) else ():
            if needs_time(row, log.until):
                times = read.times.get(row["offset"], Times())
                times = Times(times.above or before, times.below)
                row["at"] = row["last_at"] = likely_time(times, log.mtime, job_end)
                row.update(bound=bound_of(times), not_before=times.above)
        yield event
