"""All log files of an ended job, read over all cores."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gpuwatch.agent.logs.matching.prefilter import Sieve
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.keep import compiled_or_kept
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule
from gpuwatch.runs.files.files import Gathered
from gpuwatch.runs.model.clues import CLUES
from gpuwatch.runs.placement.step_series import (
    FIRST_LINES,
    LARGE_FILE_BYTES,
    MIN_FIRST_LINES,
)
from gpuwatch.runs.scan import hyperscan_prefilter
from gpuwatch.runs.scan.assembly import whole
from gpuwatch.runs.scan.reading import FilePart, PartRead, parts_of, reader
from gpuwatch.runs.scan.result import Engine, Scan
from gpuwatch.runs.scan.scan_file import ScanFile
from gpuwatch.runs.scan.workers import Counter, Workers

WORKER_MEMORY = 2 << 30
"""Bytes that a process may take to read files; 64 MiB of log with 20,000 findings need a tenth of it."""
SMALL_BYTES = 4 << 20
"""Less than this is read faster than worker processes start."""


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
    watch = watch or Watch()
    running = FolderScan(found, begin or Begin.of(rules, engine or default_engine()))
    for _ in running.read(watch, cores):
        pass
    return running.result(stopped=watch.stopping())


class FolderScan:
    """A scan of gathered files while it runs."""

    def __init__(self, found: Gathered, begin: Begin) -> None:
        """Read nothing yet.

        Args:
            found: The files.
            begin: The rules, made ready.
        """
        self._begin = begin
        self._skipped = found.skipped
        self._parts = [part for log in found.files for part in parts_of(log)]
        self._files = {log.name: ScanFile(log) for log in found.files}

    def read(self, watch: Watch, cores: int | None = None) -> Iterator[None]:
        """Read all files; yields after each part."""
        first_lines = max(MIN_FIRST_LINES, FIRST_LINES // max(1, len(self._parts)))
        parts = [
            replace(
                part,
                first_lines=MIN_FIRST_LINES if part.log.size > LARGE_FILE_BYTES else first_lines,
                files=len(self._files),
            )
            for part in self._parts
        ]
        parts.sort(
            key=lambda part: part.log.packing is None
        )  # packed ones cannot be shared out: they go first
        for part in parts:
            self._files[part.log.name].left += 1
        through = FilesRead()
        for part, read, fault in done_parts(parts, self._begin, watch, cores, through):
            through.files += self._files[part.log.name].take(part, read, fault)
            yield

    def result(self, *, stopped: bool = False) -> Scan:
        """What was found, once all is read."""
        return self._whole(list(self._files.values()), stopped=stopped)

    def result_so_far(self) -> Scan:
        """What was found in the files of which a part is read.

        It is made of copies, as dating findings changes them.
        """
        read = [file for file in self._files.values() if file.reads]
        return self._whole(pickle.loads(pickle.dumps(read)), stopped=False)  # noqa: S301 - our own

    def _whole(self, files: list[ScanFile], *, stopped: bool) -> Scan:
        rules_by_id = {rule.id: rule for rule in self._begin.ruleset.rules}
        return whole(files, rules_by_id, self._skipped, self._begin.engine, stopped=stopped)


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
    """The number of cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
