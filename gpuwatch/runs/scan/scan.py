"""All log files of an ended job, over all cores: what the rules find, and where the ranks ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from gpuwatch.agent.base.path_ranks import ranks_of_path
from gpuwatch.agent.logs.matching.prefilter import Sieve
from gpuwatch.agent.logs.matching.ruleset import CompiledRule, RuleSet
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.rules.compiling.keep import compiled_or_kept
from gpuwatch.rules.model.checkpoint_lines import BEGUN, SAVED
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule
from gpuwatch.runs.files.files import Gathered, Skipped, system_logs
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.packing import is_section
from gpuwatch.runs.files.samples import sampled
from gpuwatch.runs.files.times import COPIED_S, Times, bound_of, likely_time, needs_time
from gpuwatch.runs.model.clues import CLUES, Clue, clues_of
from gpuwatch.runs.model.record import Match, RecoveryLine, Row, gathered
from gpuwatch.runs.placement.job_ranks import of_ranks, with_census
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.placement.rank_map import FileOwner, RankMap, rank_map
from gpuwatch.runs.placement.step_series import (
    FIRST_LINES,
    LARGE_FILE_BYTES,
    LEAST_FIRST_LINES,
    StepSeries,
    joined,
    steps_in,
)
from gpuwatch.runs.placement.unfinished import Unfinished, unfinished
from gpuwatch.runs.scan import hyperscan_prefilter
from gpuwatch.runs.scan.reading import FilePart, PartRead, parts_of, reader
from gpuwatch.runs.scan.workers import Counter, Workers
from gpuwatch.wire import Finding

Engine: TypeAlias = Literal["agent", "hyperscan"]

WORKER_MEMORY = 2 << 30
"""Bytes that a process may take to read files; 64 MiB of log with 20,000 findings need a tenth of it."""
SMALL_BYTES = 4 << 20
"""Less than this is read faster than worker processes start."""


@dataclass(frozen=True)
class LogScan:
    """What came of one file."""

    name: str
    path: Path
    size: int
    packing: str | None
    """gzip, zstd, xz, bzip2; None: plain."""
    node: str | None
    rank: int | None
    attempt: int | None
    kernel: bool
    findings: int
    trouble: str | None
    """Why not all of it was read."""
    grew: bool = False
    """It was written to while it was scanned."""
    mtime: float = 0.0
    """When it was last written (unix seconds)."""
    last_time: float | None = None
    """The last time that a line carries (unix seconds)."""
    series: tuple[StepSeries, ...] = ()
    """The steps that ranks logged in it."""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScanFinding:
    """A finding, and the node of its file as far as it is known."""

    node: str | None
    finding: Finding


@dataclass(frozen=True)
class Scan:
    """The whole result."""

    located: tuple[ScanFinding, ...]
    """File by file, in the order of the files."""
    places: Places
    files: tuple[LogScan, ...]
    skipped: tuple[Skipped, ...]
    bytes: int
    """Of text that was looked at."""
    engine: Engine
    left_out: int = 0
    """Matches over a bound, of which only the number is known."""
    suspended: dict[str, str] = field(default_factory=dict)
    """Rules that took too long for one line, and were searched for no more."""
    saves: tuple[float, ...] = ()
    """When checkpoints were written (unix seconds)."""
    checkpoints: tuple[tuple[str, bool, float, bool], ...] = ()
    """Lines about checkpoints, as `checkpoint_line` gives them."""
    stopped: bool = False
    """It was ended before it was through."""
    unfinished: Unfinished | None = None
    """What one rank began and did not end, by its lines."""


@dataclass
class Watch:
    """How a scan shows how far it is, and receives that it shall end."""

    report: Callable[[int, int], None] = lambda _bytes, _files: None
    """Bytes and files done."""
    stopping: Callable[[], bool] = lambda: False


@dataclass
class FilesRead:
    """How many files are read to their end."""

    files: int = 0


@dataclass
class _ScanFile:
    """A file while its parts come in."""

    log: LogPath
    left: int = 0
    reads: dict[int, PartRead] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def take(self, part: FilePart, read: PartRead | None, fault: str | None) -> bool:
        """One part is done, or its process died; True when it was the last one."""
        self.left -= 1
        if read is not None:
            self.reads[part.start] = read
        trouble = fault if read is None else read.trouble
        if trouble is not None:
            self.troubles.append(trouble)
        return self.left == 0

    @property
    def trouble(self) -> str | None:
        """Why not all of it was read."""
        stopped = ["not read: stopped before"] if self.left else []
        return "; ".join(dict.fromkeys([*self.troubles, *stopped])) or None

    def in_order(self) -> list[PartRead]:
        """The parts as they lie in the file."""
        return [self.reads[start] for start in sorted(self.reads)]


def default_engine() -> Engine:
    """Hyperscan where it is installed."""
    return "hyperscan" if hyperscan_prefilter.installed() else "agent"


def scan(
    found: Gathered,
    rules: Iterable[Rule | Dialect],
    engine: Engine | None = None,
    watch: Watch | None = None,
    cores: int | None = None,
    begin: Begin | None = None,
) -> Scan:
    """Read every file that was gathered with the rules of the packs.

    `begin`: the same rules made ready before, for several scans in one process.
    """
    engine = engine or default_engine()
    watch = watch or Watch()
    begin = begin or Begin.of(rules, engine)
    parts = [part for log in found.files for part in parts_of(log)]
    first_lines = max(LEAST_FIRST_LINES, FIRST_LINES // max(1, len(parts)))
    parts = [
        replace(part, first_lines=LEAST_FIRST_LINES if part.log.size > LARGE_FILE_BYTES else first_lines)
        for part in parts
    ]
    parts.sort(key=lambda part: part.log.packing is None)  # packed ones cannot be shared out: they go first
    files = {log.name: _ScanFile(log) for log in found.files}
    for part in parts:
        files[part.log.name].left += 1
    through = FilesRead()
    for part, read, fault in done_parts(parts, begin, watch, cores, through):
        through.files += files[part.log.name].take(part, read, fault)
    rules_by_id = {rule.id: rule for rule in begin.ruleset.rules}
    return whole(list(files.values()), rules_by_id, found.skipped, engine, stopped=watch.stopping())


@dataclass(frozen=True)
class Begin:
    """What a worker process does first: make the rules and the sieve ready."""

    compiled: list[dict[str, Any]]
    engine: Engine

    @classmethod
    def of(cls, rules: Iterable[Rule | Dialect], engine: Engine) -> Begin:
        """The rules, and those that show whose a file is."""
        return cls(compiled_or_kept([*rules, *CLUES]), engine)

    @cached_property
    def ruleset(self) -> RuleSet:
        """Made once in a process."""
        return RuleSet(self.compiled)

    def __call__(self) -> Callable[..., PartRead]:
        """The function that reads a part."""
        return reader(self.ruleset, hyperscan_prefilter.HyperSieve if self.engine == "hyperscan" else Sieve)


def done_parts(
    parts: Sequence[FilePart], begin: Begin, watch: Watch, cores: int | None, through: FilesRead
) -> Iterable[tuple[FilePart, PartRead | None, str | None]]:
    """Parts as they are done, with the fault of those whose process died."""
    cores = min(cores or usable_cores(), len(parts))

    def report(size: int) -> None:
        watch.report(size, through.files)

    if cores <= 1 or sum(part.log.size for part in parts if part.start == 0) < SMALL_BYTES:
        yield from in_this_process(parts, begin, watch, report)
        return
    workers: Workers[FilePart, PartRead] = Workers(cores, begin, memory=WORKER_MEMORY)
    try:

        def look(size: int) -> None:
            report(size)
            if watch.stopping():
                workers.stop()

        for done in workers.results(parts, look):
            yield done.task, done.result, done.fault
    finally:
        workers.close()


def in_this_process(
    parts: Sequence[FilePart], begin: Begin, watch: Watch, report: Callable[[int], None]
) -> Iterable[tuple[FilePart, PartRead | None, str | None]]:
    """The same without workers."""
    dial = Counter()
    read = begin()
    for part in parts:
        dial.stopping = watch.stopping()
        if dial.stopping:
            return
        yield part, read(part, dial), None
        report(dial.bytes)


def usable_cores() -> int:
    """As many as this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def whole(
    files: Sequence[_ScanFile],
    rules: dict[str, CompiledRule],
    skipped: Sequence[Skipped],
    engine: Engine,
    *,
    stopped: bool,
) -> Scan:
    """Everything put together, once no more parts come."""
    owners = [owner_of(file.log) for file in files]
    reads = {file.log.name: file.in_order() for file in files}
    rows = rows_of(files, rules)
    clues: list[Clue] = []
    for name, parts in reads.items():
        for read in parts:
            clues += clues_of(name, read.clues)
        clues += clues_of(name, rows[name])
    samples = list(sampled([file.log for file in files]))
    owners, clues, counted = with_census(owners, clues, samples, rows)
    known = rank_map(owners, clues)
    writers = {log: place.rank for place in reversed(known.places.ranks) for log in place.logs}
    known = with_kernel_logs(replace(known, places=replace(known.places, counted=counted)), owners, files)
    from_tools = {log for log, found in rows.items() if any("tool" in row["fields"] for row in found)}
    evidence = from_tools | {file.log.name for file in files if path_places(file.log.inner).kernel}
    of_job = known.places.job_logs | {log for log, parts in reads.items() if any(p.series for p in parts)}
    system = system_logs([file.log for file in files], evidence - of_job)
    known = replace(known, places=replace(known.places, system_logs=system))
    every = [read for parts in reads.values() for read in parts]
    suspended = {rule: why for read in every for rule, why in read.suspended.items()}
    return Scan(
        tuple(each for file in files for each in located_findings(file.log, rows[file.log.name], known)),
        known.places,
        tuple(
            log_scan(file, owner, known, writers, counted, len(rows[file.log.name]))
            for file, owner in zip(files, owners, strict=True)
        ),
        tuple(skipped),
        sum(read.bytes for read in every),
        engine,
        sum(read.left_out for read in every),
        suspended,
        tuple(row["at"] for read in every for row in read.clues if is_save(row)),
        tuple(checkpoint_line(row) for read in every for row in read.clues if row["rule"] in (SAVED, BEGUN)),
        stopped,
        unfinished(samples),
    )


def with_kernel_logs(known: RankMap, owners: Sequence[FileOwner], files: Sequence[_ScanFile]) -> RankMap:
    """Which files are kernel logs, and what time they cover; which are the job's own."""
    spans = []
    own = {log for place in known.places.ranks for log in place.logs}
    for file, owner in zip(files, owners, strict=True):
        reads = file.in_order()
        if path_places(file.log.inner).kernel:
            own.discard(file.log.name)
            firsts = [read.first_time for read in reads if read.first_time is not None]
            lasts = [read.last_time for read in reads if read.last_time is not None]
            if firsts and lasts:
                spans.append((known.nodes.get(file.log.name), min(firsts), max(lasts)))
        elif owner.rank is not None or owner.local_rank is not None or any(read.series for read in reads):
            own.add(file.log.name)
    return replace(known, places=replace(known.places, kernel_spans=tuple(spans), job_logs=frozenset(own)))


def checkpoint_line(clue: Row) -> tuple[str, bool, float, bool]:
    """Text, whether the checkpoint was finished, when (unix seconds), whether that is the line's own time."""
    return clue["lines"][clue.get("key", 0)], clue["rule"] == SAVED, clue["at"], bool(clue["timed"])


def is_save(clue: Row) -> bool:
    """Whether a line states, with its time, that a checkpoint was written."""
    return bool(clue["rule"] == SAVED and clue["timed"])


def rows_of(files: Sequence[_ScanFile], rules: dict[str, CompiledRule]) -> dict[str, list[Row]]:
    """The findings of each file, those without a time dated as well as the whole job allows."""
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
        events = [
            event for read in file.in_order() for event in dated(read, file.log, before, job_end, last_line)
        ]
        rows[file.log.name] = gathered(
            events, rules, steps_in([each for read in file.in_order() for each in read.series.values()])
        )
    return rows


def stamps_are_the_writers(files: Sequence[_ScanFile]) -> bool:
    """Whether the files lie where they were written: most that report times were changed at their last."""
    lasts = [
        abs(file.log.mtime - max(times))
        for file in files
        if (times := [read.last_time for read in file.in_order() if read.last_time is not None])
    ]
    return sum(late <= COPIED_S for late in lasts) * 2 > len(lasts)


def speaker(log: LogPath) -> FileOwner:
    """Equal for the files of one rank (stdout.log and stderr.log), as far as their paths report."""
    owner = owner_of(log)
    own = owner.rank is None and owner.local_rank is None
    return replace(owner, file=log.name if own else "", hosts=())


def dated(
    read: PartRead, log: LogPath, before: float | None, job_end: float | None, last_line: float | None
) -> Iterable[Match | RecoveryLine]:
    """The matches of a part, with a likely time where no line near them reports one.

    Args:
        read: The matches.
        log: Their file.
        before: When the same rank last logged a time, in this file or its other one.
        job_end: When the job ended, by its lines or else its files.
        last_line: The last time that a line of the job carries.
    """
    for event in read.events:
        for row in event.rows if isinstance(event, Match) else ():
            if needs_time(row, log.until):
                times = read.times.get(row["offset"], Times())
                times = Times(times.above or before, times.below)
                row["at"] = row["last_at"] = likely_time(times, log.mtime, job_end)
                row.update(bound=bound_of(times, last_line), not_before=times.above)
        yield event


def owner_of(log: LogPath) -> FileOwner:
    """What the path states, and the folder that all ranks of one launcher share."""
    rank, local_rank = ranks_of_path(f"/{log.inner}")
    group = log.name.rpartition("/attempt_")[0] or log.name.rpartition("/")[0]
    return FileOwner(log.name, rank, local_rank, path_places(log.inner).hosts, group)


def located_findings(log: LogPath, rows: Iterable[Row], known: RankMap) -> Iterable[ScanFinding]:
    """The findings of one file."""
    for row in rows:
        yield ScanFinding(known.nodes.get(log.name), msgspec.convert({"t": 0.0, "seq": 0, **row}, Finding))


def has_grown(log: LogPath) -> bool:
    """Whether a file is longer than when it was gathered."""
    try:
        return not is_section(log.packing) and log.path.stat().st_size > log.size
    except OSError:
        return False


def log_scan(
    file: _ScanFile,
    owner: FileOwner,
    known: RankMap,
    writers: dict[str, int],
    words: frozenset[str],
    findings: int,
) -> LogScan:
    """The report of one file.

    Args:
        file: Its parts.
        owner: What its path reports.
        known: Nodes of all files.
        writers: File name -> its rank, where the lines report it.
        words: Those whose numbers are ranks.
        findings: Of the file.
    """
    stated = path_places(file.log.inner)
    own = writers.get(file.log.name, owner.rank)
    node = known.nodes.get(file.log.name)
    return LogScan(
        file.log.name,
        file.log.path,
        file.log.size,
        file.log.packing,
        node,
        own,
        stated.attempt,
        stated.kernel,
        findings,
        file.trouble,
        has_grown(file.log),
        file.log.mtime,
        max((read.last_time for read in file.in_order() if read.last_time is not None), default=None),
        of_ranks(joined(read.series for read in file.in_order()), words),
        tuple(line for read in file.in_order() for line in read.last_lines),
    )
