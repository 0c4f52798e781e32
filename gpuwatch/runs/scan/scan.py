"""Scans all log files of an ended job, on all cores."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from msgspec.structs import replace

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.matching.traceback_ends import MARKS as TRACEBACK_MARKS
from gpuwatch.rules.compiling.keep import compiled_or_kept
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule
from gpuwatch.runs.files.excerpts.date_order import files_with_day_first
from gpuwatch.runs.files.excerpts.samples import sample_of
from gpuwatch.runs.files.files import Gathered
from gpuwatch.runs.model.clues import CLUES
from gpuwatch.runs.model.containment import contained, from_sound
from gpuwatch.runs.placement.learned_tags.learn import learned_tags
from gpuwatch.runs.prefilter import hyperscan_database, hyperscan_prefilter
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.saved_outputs.sections import MARKS
from gpuwatch.runs.scan.assembly import whole, with_folders
from gpuwatch.runs.scan.cut_lines.partial_lines import PARTIAL_MARKS
from gpuwatch.runs.scan.file_parts import FilePart, parts_of
from gpuwatch.runs.scan.reading import PartRead, reader
from gpuwatch.runs.scan.result import Engine, Scan
from gpuwatch.runs.scan.scan_file import ScanFile
from gpuwatch.runs.scan.workers import Counter, Dial, Workers
from gpuwatch.runs.steps.step_series import FIRST_LINES, LARGE_FILE_BYTES, MIN_FIRST_LINES

T = TypeVar("T")

WORKER_MEMORY = 2 << 30
"""Memory limit of a worker; 64 MiB of log with 20,000 findings need a tenth of it."""
SLOW_S = 0.5
"""CPU seconds that a rule may take for one line, ten times as much as on a node.

Which rules are suspended must not depend on the load of the machine, with which CPU times also grow.
"""
WARM_BYTES = 1 << 16
SMALL_BYTES = 4 << 20
"""Size in bytes below which a scan in this process is faster than starting workers."""


BATCH_BYTES, BATCH_FILES = 1 << 16, 32
"""Most bytes and number of the small files that a worker reads per message."""
MIN_BATCHES = 8
"""Least messages per core, so that all cores end at about the same time."""


@dataclass
class Watch:
    """The progress callback and the stop request of a scan."""

    report: Callable[[int, int], None] = lambda _bytes, _files: None
    """A function that is called with the bytes and files that are done."""
    stopping: Callable[[], bool] = lambda: False
    meanwhile: Callable[[], None] = lambda: None
    """A function that is called once while worker processes read, to import what is needed afterwards."""


@dataclass
class FilesRead:
    """Counts the files that are read completely."""

    files: int = 0


def default_engine() -> Engine:
    """Return `hyperscan` if it is installed, else `agent`."""
    return "hyperscan" if hyperscan_database.installed() else "agent"


def scan(
    found: Gathered,
    rules: Iterable[Rule | Dialect],
    engine: Engine | None = None,
    watch: Watch | None = None,
    cores: int | None = None,
    begin: Begin | None = None,
) -> Scan:
    """Return the scan of all gathered files with the rules of the packs.

    `engine`: None: the default one; `cores`: None: all; `begin`: the prepared rules, for several scans.
    """
    watch = watch or Watch()
    running = FolderScan(found, begin or Begin.of(rules, engine or default_engine()))
    for _ in running.read(watch, cores):
        pass
    return running.result(stopped=watch.stopping())


class FolderScan:
    """A running scan of gathered files."""

    def __init__(self, found: Gathered, begin: Begin) -> None:
        """Create the scan; nothing is read yet.

        Args:
            found: The files to read.
            begin: The compiled rules and the engine.
        """
        self._begin = begin
        self._skipped = found.skipped
        self._parts = [part for log in found.files for part in parts_of(log)]
        self._files = {log.name: ScanFile.of(log) for log in found.files}
        self._samples: dict[str, list[bytes]] = {}

    def read(self, watch: Watch, cores: int | None = None) -> Iterator[None]:
        """Read all files; yields after each part."""
        first_lines = max(MIN_FIRST_LINES, FIRST_LINES // max(1, len(self._parts)))
        self._sample()
        tags = self._from_samples(learned_tags)
        modified = {name: file.log.mtime for name, file in self._files.items()}
        day_first = self._from_samples(lambda samples: files_with_day_first(samples, modified))
        parts = [
            replace(
                part,
                tags=tags,
                day_first=part.log.name in day_first,
                first_lines=MIN_FIRST_LINES if part.log.size > LARGE_FILE_BYTES else first_lines,
                files=len(self._files),
            )
            for part in self._parts
        ]
        parts.sort(key=lambda part: part.log.packing is None)  # packed files cannot be split: they go first
        for part in parts:
            self._files[part.log.name].left += 1
        through = FilesRead()
        for part, read, fault in done_parts(parts, self._begin, watch, cores, through):
            through.files += self._files[part.log.name].take(part, read, fault)
            yield

    def _sample(self) -> None:
        """Read the sample lines of all files."""
        for name, file in self._files.items():
            lines, fault = contained(sample_of, file.log, len(self._files))
            self._samples[name] = lines or []
            file.add(fault)

    def _from_samples(self, made: Callable[[Sequence[tuple[str, Sequence[bytes]]]], T]) -> T:
        """Return what is made of all sample lines, without those of files over which it raises an error."""
        samples = list(self._samples.items())
        result, faults = from_sound(made, samples)
        for at, fault in faults.items():
            self._files[samples[at][0]].add(fault)
        return result

    def result(self, *, stopped: bool = False) -> Scan:
        """Return the result, once all files are read. `stopped`: the scan was stopped early."""
        return self._whole(list(self._files.values()), stopped=stopped)

    def result_so_far(self) -> Scan:
        """Return the result for the files that are read at least in part.

        The result is made of copies, because dating modifies findings.
        """
        read = [file for file in self._files.values() if file.reads]
        return self._whole(pickle.loads(pickle.dumps(read)), stopped=False)  # noqa: S301 - our own

    def _whole(self, files: list[ScanFile], *, stopped: bool) -> Scan:
        rules_by_id = {rule.id: rule for rule in self._begin.ruleset.rules}

        def made_of(parts: Sequence[ScanFile]) -> Scan:
            return whole(
                parts, self._samples, rules_by_id, self._skipped, self._begin.engine, stopped=stopped
            )

        return with_folders(files, made_of)


@dataclass(frozen=True)
class Begin:
    """The function that starts a worker: it prepares the rules and the prefilter."""

    compiled: list[dict[str, Any]]
    engine: Engine

    @classmethod
    def of(cls, rules: Iterable[Rule | Dialect], engine: Engine) -> Begin:
        """Return the start for these rules, together with those that locate files."""
        return cls(compiled_or_kept([*rules, *CLUES]), engine)

    @cached_property
    def ruleset(self) -> RuleSet:
        """The compiled rules, built once per process."""
        return RuleSet(self.compiled, SLOW_S)

    def warm(self, part: FilePart) -> None:
        """Read the beginning of a file in this process, before workers are forked off.

        The patterns that the file needs are then compiled, and the shapes of its lines known, which saves
        each worker half a second.
        """
        self.reader(replace(part, start=0, end=WARM_BYTES), Counter())

    def __reduce__(self) -> tuple[type[Begin], tuple[list[dict[str, Any]], Engine]]:
        """Pickle without the prepared rules, for workers that are not forked."""
        return Begin, (self.compiled, self.engine)

    def __call__(self) -> Callable[[FilePart, Dial], PartRead]:
        """Return the function that reads a part."""
        return self.reader

    @cached_property
    def prefilter(self) -> PiecePrefilter:
        """The engine's prefilter, made once per process."""
        if self.engine == "hyperscan":
            marks = (MARKS, PARTIAL_MARKS, TRACEBACK_MARKS)
            return hyperscan_prefilter.HyperscanPrefilter(self.ruleset, marks)
        return PiecePrefilter(self.ruleset)

    @cached_property
    def reader(self) -> Callable[[FilePart, Dial], PartRead]:
        """The function that reads a part, made once per process."""
        return reader(self.ruleset, self.prefilter)


def done_parts(
    parts: Sequence[FilePart], begin: Begin, watch: Watch, cores: int | None, through: FilesRead
) -> Iterable[tuple[FilePart, PartRead | None, str | None]]:
    """Yield each part when it is done, with its result; for a dead worker process, None and the reason."""
    cores = min(cores or usable_cores(), len(parts))

    def report(size: int) -> None:
        watch.report(size, through.files)

    is_small = sum(part.log.size for part in parts if part.start == 0) < SMALL_BYTES
    if not is_small:
        begin.prefilter.load_kept()
    if cores <= 1 or is_small:
        yield from in_this_process(parts, begin, watch, report)
        return
    if parts[-1].log.packing is None:
        begin.warm(parts[-1])
    workers: Workers[Sequence[FilePart], list[PartRead]] = Workers(
        cores, BatchReader(begin), memory=WORKER_MEMORY
    )
    alone: list[Sequence[FilePart]] = []
    unprepared = [watch.meanwhile]
    try:

        def show_progress(size: int) -> None:
            report(size)
            while unprepared:  # the workers have their first tasks
                unprepared.pop()()
            if watch.stopping():
                workers.stop()

        for done in workers.results(batches(parts, cores), show_progress):
            if done.result is not None:
                yield from ((*each, None) for each in zip(done.task, done.result, strict=False))
            elif len(done.task) > 1:
                alone += [[part] for part in done.task]  # its worker died over one of them
            else:
                yield done.task[0], None, done.fault
        for done in workers.results(alone, show_progress):
            yield done.task[0], None if done.result is None else next(iter(done.result), None), done.fault
    finally:
        workers.close()


def batches(parts: Sequence[FilePart], cores: int) -> list[Sequence[FilePart]]:
    """Return the parts, with small plain files together: a message costs a tenth of what reading one does."""
    most = min(BATCH_BYTES, sum(part.log.size for part in parts) // (MIN_BATCHES * cores))
    found: list[Sequence[FilePart]] = []
    batch: list[FilePart] = []
    for part in parts:
        if part.log.packing is not None or part.log.size > most // 2:
            found.append([part])
            continue
        if sum(each.log.size for each in batch) + part.log.size > most or len(batch) >= BATCH_FILES:
            found.append(batch)
            batch = []
        batch.append(part)
    return [*found, batch] if batch else found


@dataclass(frozen=True)
class BatchReader:
    """The function that starts a worker that reads several parts at a time."""

    begin: Begin

    def __call__(self) -> Callable[[Sequence[FilePart], Dial], list[PartRead]]:
        """Return the function that reads parts; those after a stop are left out."""
        read = self.begin()
        return lambda parts, dial: [read(part, dial) for part in parts if not dial.stopping]


def in_this_process(
    parts: Sequence[FilePart], begin: Begin, watch: Watch, report: Callable[[int], None]
) -> Iterable[tuple[FilePart, PartRead | None, str | None]]:
    """Yield the parts as they are done, with their results, like `done_parts`, but without workers."""
    dial = Counter()
    read = begin()
    for part in parts:
        dial.stopping = watch.stopping()
        if dial.stopping:
            return
        yield part, read(part, dial), None
        report(dial.bytes)


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
