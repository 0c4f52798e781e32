"""Finds the dumps under the given paths: the rank of each file, and unreadable files with the reason."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.agent.base.regular_file import modified_at
from gpuwatch.plain import plain
from gpuwatch.runs.files.encodings import HEAD_BYTES
from gpuwatch.runs.files.files import Gathered, Skipped, reason, walked
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents, packing_of
from gpuwatch.runs.flight.attempts import of_the_last_attempt, of_the_youngest_job
from gpuwatch.runs.flight.dumps import read_dump
from gpuwatch.runs.flight.pickle_reader import MAX_BYTES, NoDumpError, UnreadableDumpError
from gpuwatch.runs.flight.rank_dump import RankDump
from gpuwatch.runs.scan.result import Scan
from gpuwatch.runs.scan.scan import usable_cores
from gpuwatch.runs.scan.workers import Dial, Workers, limit_memory

MAX_FILES = 20_000
MAX_FILES_IN_PROCESS = 8
"""Most files that are read in this process; more are read in child processes."""
FILE_CPU_S = 15
"""Most CPU seconds for one file; the largest accepted dump takes about 5 s."""
MIN_MEMORY_BYTES = 256 << 20
MEMORY_PER_BYTE = 16
"""Address space in bytes per byte of a dump's file; a real pickle needs about 11, JSON 6."""
MAX_MEMORY_BYTES = 1536 << 20
"""Most address space for one dump (bytes).

A pickle of `dumps.MAX_ENTRIES` entries with frames needs about 1.2 GiB.
"""
MEMORY_IN_ALL = 4 << 30
"""Most address space for all dumps that are read concurrently (bytes)."""
ENDINGS = re.compile(r"(\.(json|pickle|pkl|pt|bin|trace|txt|gz|zst|xz|bz2)){1,8}$", re.IGNORECASE)
NO_DUMP_NAMES = (".log", ".py", ".yaml", ".yml", ".out", ".err", ".md", ".sh", ".pipe")
MAX_RANK = 1 << 22
STATED_RANK = re.compile(r"(?i)rank[-_.=]?$")
"""Matches a file name before a number that can only be a rank: the folder's number is then not used."""


class _Task(Struct, frozen=True):
    path: str
    name: str
    rank: int
    mtime: float
    size: int
    """Size of the file, which may be packed (bytes)."""
    inner: bool
    """True if the file was found in a named folder, so that it need not be a dump."""


class Closed(str):
    """The reason why a file that may be a dump was not read; it shows nothing about the file's rank."""

    __slots__ = ()


@dataclass
class FoundDumps:
    """The dumps found, and the files that were left out."""

    dumps: list[RankDump] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """Files that are no dumps; `unreadable` where a dump was expected."""
    twice: dict[int, int] = field(default_factory=dict)
    """Rank -> number of its dumps, if several; the newest counts."""
    apart: list[str] = field(default_factory=list)
    """Notes about dumps that were left out, as they are of another job or earlier attempt."""
    closed: set[int] = field(default_factory=set)
    """Ranks whose dumps may exist but could not be read.

    A truncated dump does not count: its rank ended while writing.
    """


def gather_dumps(
    paths: Sequence[Path],
    report: Callable[[int], None] = lambda _bytes: None,
    file_cpu_s: int = FILE_CPU_S,
) -> FoundDumps:
    """Read every dump under the paths, on all cores if there are many; return those of one run.

    Args:
        paths: Files and folders.
        report: Called with the bytes read so far.
        file_cpu_s: A file that needs more CPU seconds than this is left out.
    """
    found = FoundDumps()
    tasks = []
    for path, root in walked(paths, found.skipped, set()):
        if root is not None and path.name.endswith(NO_DUMP_NAMES):
            continue
        task = _task(path, root, found)
        if task is not None:
            tasks.append(task)
    if len(tasks) > MAX_FILES:
        found.skipped.append(
            Skipped(f"{len(tasks) - MAX_FILES} files", "too many dumps at once", unreadable=True)
        )
        tasks = tasks[:MAX_FILES]
    read = [(task, result) for task, result in _results(tasks, report, file_cpu_s)]
    read.sort(key=lambda each: (each[0].mtime, each[0].rank, each[0].name))
    by_rank: dict[tuple[str, int], RankDump] = {}
    for task, result in read:
        if isinstance(result, RankDump):
            key = series_of(Path(task.path)), task.rank
            found.twice[task.rank] = found.twice.get(task.rank, 0) + (key in by_rank)
            by_rank.pop(key, None)
            by_rank[key] = result
        else:
            found.skipped.append(Skipped(task.name, result, unreadable=True))
            if isinstance(result, Closed):
                found.closed.add(task.rank)
    found.twice = {rank: count + 1 for rank, count in found.twice.items() if count}
    _choose(found, by_rank)
    return found


def dumps_beside(logs: Gathered, scan: Scan) -> tuple[Scan, list[RankDump]]:
    """Return the scan of the logs, which then names the unreadable dumps beside them, and the other dumps.

    If there are none, no process is started.
    """
    if not logs.dumps:
        return scan, []
    found = gather_dumps(logs.dumps)
    unreadable = {each.name: each for each in found.skipped if each.unreadable}
    skipped = (each for each in scan.skipped if each.name not in unreadable)
    return replace(scan, skipped=(*skipped, *unreadable.values())), found.dumps


def _choose(found: FoundDumps, by_rank: Mapping[tuple[str, int], RankDump]) -> None:
    """Set the dumps of `found` to those of one run, and add notes about the others."""
    of_one, found.apart = of_the_youngest_job([(series, dump) for (series, _), dump in by_rank.items()])
    found.dumps, words = of_the_last_attempt(sorted(of_one, key=lambda dump: dump.rank))
    found.apart += words


def rank_of(path: Path) -> int | None:
    """Return the number at the end of a dump's name, or else of its folder's name; None: no valid number.

    Torch appends the rank to a prefix.
    """
    for name in (path.name, path.parent.name):
        match = re.search(r"(\d+)\D*$", ENDINGS.sub("", name))
        if match is None:
            continue
        if len(match[1]) < 8 and int(match[1]) < MAX_RANK:
            return int(match[1])
        if STATED_RANK.search(name, 0, match.start()):
            return None
    return None


def series_of(path: Path) -> str:
    """Return the key of the dumps of one job on one node: the folder, and the file name before the rank."""
    name = ENDINGS.sub("", path.name)
    match = re.search(r"\d+\D*$", name)
    return str(path.parent / (name[: match.start()] if match else ""))


def _task(path: Path, root: Path | None, found: FoundDumps) -> _Task | None:
    name = plain(str(path))
    rank = rank_of(path)
    if rank is None:
        found.skipped.append(Skipped(name, "no rank in its name", unreadable=root is None))
        return None
    try:
        known = path.stat()
    except OSError as error:
        found.skipped.append(Skipped(name, reason(error), unreadable=True))
        found.closed.add(rank)
        return None
    if not stat.S_ISREG(known.st_mode):
        found.skipped.append(Skipped(name, "not a regular file", unreadable=True))
        found.closed.add(rank)
        return None
    return _Task(str(path), name, rank, modified_at(known), known.st_size, root is not None)


def _results(
    tasks: Sequence[_Task], report: Callable[[int], None], file_cpu_s: int
) -> list[tuple[_Task, RankDump | str]]:
    largest = max((_memory_for(task.size) for task in tasks), default=MIN_MEMORY_BYTES)
    count = min(usable_cores(), max(1, len(tasks) // MAX_FILES_IN_PROCESS), MEMORY_IN_ALL // largest)
    workers: Workers[_Task, RankDump | str] = Workers(count, _reader, file_cpu_s)
    try:
        return [
            (each.task, each.result if each.result is not None else Closed(each.fault or "not read"))
            for each in workers.results(tasks, report)
        ]
    finally:
        workers.close()


def _memory_for(size: int) -> int:
    """Return the address space (bytes) for reading a dump of this size."""
    return min(MAX_MEMORY_BYTES, max(MIN_MEMORY_BYTES, MEMORY_PER_BYTE * size))


def _reader() -> Callable[[_Task, Dial], RankDump | str]:
    return _read


def _read(task: _Task, dial: Dial) -> RankDump | str:
    """Return the dump, or the reason why it cannot be read."""
    path = Path(task.path)
    try:
        with open_file(path) as file:
            packing = packing_of(file.read(HEAD_BYTES))
        contents = Contents(path, packing)
        pieces, size = [], 0
        for piece in contents.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BYTES:
                break
        dial.read(contents.read)
        data = b"".join(pieces)
        limit_memory(_memory_for(len(data)))
        return read_dump(data, task.rank, task.name)
    except OSError as error:
        return Closed(reason(error))
    except UnreadableDumpError as error:
        return Closed(error)
    except NoDumpError as error:
        return str(error)
    except MemoryError:
        return Closed("asks for more memory than a dump needs: refused")
    except Exception as error:  # one file of an unforeseen shape must not hide the others
        return Closed(f"cannot be read: {type(error).__name__}: {plain(str(error))[:120]}")
