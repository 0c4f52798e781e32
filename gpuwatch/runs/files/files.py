"""Finds the logs under the given paths, and records which files are left out and why."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.agent.base.regular_file import modified_at
from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.plain import plain
from gpuwatch.runs.files.byte_samples import (
    DAY_S,
    has_lines,
    is_flight_dump,
    is_text,
    last_year_time,
    looked_into,
)
from gpuwatch.runs.files.exports.finding import export_packing
from gpuwatch.runs.files.file_kinds import (
    LOG_SUFFIXES,
    SAVED_SCREEN,
    is_metrics_table,
    is_table_of_numbers,
    kind_of_name,
    may_be_log,
    names_logs,
    unpacked_name,
)
from gpuwatch.runs.files.json_documents import (
    NOTEBOOK,
    NOTEBOOK_ENDING,
    document_of,
    is_notebook,
    training_folder,
)
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.margins import HEAD_BYTES as MARGIN_BYTES
from gpuwatch.runs.files.margins import MARGIN, form_of
from gpuwatch.runs.files.opening import beginning
from gpuwatch.runs.files.pasted_sections import sections_of
from gpuwatch.runs.model.containment import contained
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.wire import KERNEL_LOG

SKIPPED_FOLDERS = {".git", "__pycache__", ".venv", "node_modules", ".cache"}
FLIGHT_DUMP = "flight-recorder dump"
"""Reason why a dump is not read as a log; dumps are judged separately."""
FOREIGN_LINK = "a link of another user, to a folder that is not that user's"
PSEUDO_DEVICES = frozenset(each.stat().st_dev for each in (Path("/proc"), Path("/sys")) if each.is_dir())
"""Device numbers of the kernel's own file systems, such as /proc."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Skipped(Struct, frozen=True):
    """A file that is not read, and why."""

    name: str
    why: str
    unreadable: bool = False
    """True if the file may have been a log, so that a report has to name it."""


@dataclass
class Gathered:
    """The logs found (in the order of the arguments, those of a folder sorted), and the files left out."""

    files: list[LogPath] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Names of the files, unique even after control characters are replaced."""
    dumps: list[Path] = field(default_factory=list)
    """Flight-recorder dumps beside the logs."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column words of metrics tables -> quantities."""


def gather(
    paths: Sequence[Path], columns: Mapping[str, str] | None = None, *, whole_files: bool = True
) -> Gathered:
    """Return the logs under the paths.

    Symlinks are followed, each file and folder is read once, and loops end.

    Args:
        paths: Files and folders.
        columns: Column names of metrics tables -> quantities; without them a table in a folder is data.
        whole_files: Search each file for several logs that were pasted into it; else only the ends of each
            file are read, and such a file is one log.
    """
    gathered = Gathered(columns=columns or {})
    links: list[tuple[Path, Path]] = []
    seen: set[tuple[int, int]] = set()
    for path, root in walked(paths, gathered.skipped, seen):
        if root is not None and os.path.islink(path):  # noqa: PTH114 - of Path raises where nothing may be looked at
            links.append((path, root))  # a file's own name states more than a link to it: links come last
        else:
            take(path, root, gathered, seen)
    for path, root in links:
        take(path, root, gathered, seen)
    if not gathered.files:  # beside logs, a notebook is not the job's output
        take_notebooks(gathered, seen)
    leave_out_older_states(gathered)
    return with_sections(gathered) if whole_files else with_bounds(gathered)


def with_sections(gathered: Gathered) -> Gathered:
    """Return the gathered files with each file divided into the logs that were pasted into it."""
    divided = []
    for log in gathered.files:
        parts, fault = contained(sections_of, log)
        divided += parts or [replace(log, fault=log.fault or fault)]
    gathered.files = divided
    return with_bounds(gathered)


def with_bounds(gathered: Gathered) -> Gathered:
    """Return the gathered files with an upper bound of the times in each."""
    job = max((log.dated for log in gathered.files if log.dated is not None), default=None)
    gathered.files = [with_sound_path(replace(log, until=until(log, job))) for log in gathered.files]
    return gathered


def with_sound_path(log: LogPath) -> LogPath:
    """Return the log; with a path that states nothing if an error is raised when the path is read."""
    _, fault = contained(lambda: (ranks_of_path(f"/{log.inner}"), path_places(log.inner)))
    return log if fault is None else replace(log, inner="log", fault=log.fault or fault)


def take_notebooks(gathered: Gathered, seen: set[tuple[int, int]]) -> None:
    """Add the notebooks that were skipped."""
    for left_out in [each for each in gathered.skipped if each.name.lower().endswith(NOTEBOOK_ENDING)]:
        gathered.skipped.remove(left_out)
        take(Path(left_out.name), None, gathered, seen)


def leave_out_older_states(gathered: Gathered) -> None:
    """Keep only the newest saved trainer state of each training, which contains all earlier records."""
    last: dict[PurePath, LogPath] = {}
    states = [log for log in gathered.files if log.saved_step is not None]
    for log in states:
        known = last.setdefault(training_folder(log.path), log)
        if (log.saved_step or 0) > (known.saved_step or 0):
            last[training_folder(log.path)] = log
    older = {log.name for log in states} - {log.name for log in last.values()}
    gathered.files = [log for log in gathered.files if log.name not in older]
    gathered.skipped += [
        Skipped(log.name, "older state of a training") for log in states if log.name in older
    ]


def until(log: LogPath, job: float | None) -> float:
    """Return an upper bound of the times in a file (unix seconds), to within a day.

    `job`: the last timestamp in any of the job's files, or None.
    """
    last = job if log.dated is None else log.dated
    return log.mtime if last is None or log.mtime <= last + DAY_S else last


def walked(
    paths: Sequence[Path], skipped: list[Skipped], seen: set[tuple[int, int]]
) -> Iterator[tuple[Path, Path | None]]:
    """Yield (file, folder) for every file under the paths.

    The folder is the one of `paths`; None if the file itself is in `paths`. Folders of tools, and those that
    may not be entered, are added to `skipped`; a folder in `seen` is not entered again.
    """
    folders: list[Path] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 - as above
            folders.append(path)
        else:
            yield path, None
            continue
        while folders:
            folder = folders.pop()
            try:
                known = folder.stat()
                entries = sorted(folder.iterdir(), key=natural)
            except OSError as error:
                skipped.append(Skipped(plain(str(folder)), reason(error), unreadable=True))
                continue
            if (known.st_dev, known.st_ino) in seen:
                continue
            seen.add((known.st_dev, known.st_ino))
            inner = {entry for entry in entries if os.path.isdir(entry)}  # noqa: PTH112 - as above
            left_out = {each: why for each in inner if (why := why_not_entered(each, path))}
            skipped += [
                Skipped(plain(str(each)), why, unreadable=why == FOREIGN_LINK)
                for each, why in sorted(left_out.items())
            ]
            of_tools = {each for each in inner if each.name in SKIPPED_FOLDERS}
            skipped += [Skipped(plain(str(each)), "folder of a tool") for each in sorted(of_tools)]
            folders += [each for each in reversed(entries) if each in inner - of_tools - left_out.keys()]
            yield from ((entry, path) for entry in entries if entry not in inner)


def why_not_entered(folder: Path, named: Path) -> str | None:
    """Return why a folder is not entered; None: it is entered.

    Who writes into a folder of logs chooses where its links lead: if one led to `/`, all files of the machine
    would be read. So links to a folder above or to the kernel's files are not followed, and a link of another
    user (except root) only to folders of that user.

    Args:
        folder: The folder, or a link to one.
        named: The folder of the arguments in which it was found.
    """
    try:
        link = folder.lstat()
        if not stat.S_ISLNK(link.st_mode):
            return None
        target, is_above = folder.stat(), folder.resolve() in named.resolve().parents
    except (OSError, RuntimeError) as error:  # before Python 3.13 a loop is no OSError
        return str(error) if isinstance(error, RuntimeError) else reason(error)
    if link.st_uid not in (0, os.geteuid()) and target.st_uid != link.st_uid:
        return FOREIGN_LINK
    if target.st_dev in PSEUDO_DEVICES:
        return "a link to the kernel's files"
    return "a link to a folder above" if is_above else None


def natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that puts rank_2 before rank_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _is_read_anyway(path: Path, kind: str, columns: Mapping[str, str]) -> bool:
    """Return True for a log or a table of metrics whose name has a suffix of `kind`."""
    return kind != SAVED_SCREEN and (may_be_log(path, kind, columns) or is_metrics_table(path, columns))


def take(path: Path, root: Path | None, gathered: Gathered, seen: set[tuple[int, int]]) -> None:
    """Classify one file and add it to `gathered`; a file that was already seen is left out."""
    _, fault = contained(_take, path, root, gathered, seen)
    if fault is not None:
        gathered.skipped.append(Skipped(plain(str(path)), fault, unreadable=True))


def _take(path: Path, root: Path | None, gathered: Gathered, seen: set[tuple[int, int]]) -> None:
    name, given = plain(str(path)), root is None
    kind = None if given else kind_of_name(path.name)
    if kind is not None and not _is_read_anyway(path, kind, gathered.columns):
        logs = kind == "archive" and names_logs(path)
        gathered.skipped.append(Skipped(name, "an archive of logs" if logs else kind, unreadable=logs))
        return
    try:
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        if not stat.S_ISREG(status.st_mode):
            gathered.skipped.append(Skipped(name, "not a regular file", unreadable=given))
            return
        packing, sample = looked_into(path, status.st_size)
    except OSError as error:
        dangling = isinstance(error, FileNotFoundError) and not given and os.path.islink(path)  # noqa: PTH114 - a path as text
        why = "a dangling symlink" if dangling else reason(error)
        gathered.skipped.append(Skipped(name, why, unreadable=not dangling))
        return
    if given and is_table_of_numbers(path, sample, gathered.columns):
        gathered.skipped.append(Skipped(name, "data"))
        return
    if is_flight_dump(sample) or not is_text(sample):
        take_binary(path, sample, gathered, given=given)
        return
    form, fault = (None, None)
    if packing is None:
        form, fault = contained(form_of_text, path, sample, gathered.columns)
    packing, saved_step = form or (packing, None)
    written_at = modified_at(status)
    dated, unsure = contained(last_year_time, sample, written_at)
    inner = inner_name(path, root)
    if name == KERNEL_LOG:
        name = f"./{name}"  # the name alone means the log that a node's agent reads from its kernel
    if name in gathered.names:
        name = f"{name} ({len(gathered.files)})"
    gathered.names.add(name)
    owner = -1 if status.st_mode & OTHERS_WRITE else status.st_uid
    gathered.files.append(
        LogPath(
            path,
            name,
            inner,
            status.st_size,
            written_at,
            packing,
            dated,
            owner=owner,
            saved_step=saved_step,
            fault=fault or unsure,
        )
    )


def form_of_text(path: Path, sample: bytes, columns: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the packing of a plain file (None: lines of text), and the step of a trainer state in it.

    `columns`: the same as for `gather`.
    """
    if is_notebook(path, sample):
        return NOTEBOOK, None
    if form_of(sample[:MARGIN_BYTES]) is not None:
        return MARGIN, None
    packing, saved_step = document_of(path, sample, columns)
    log = unpacked_name(path.name).endswith(LOG_SUFFIXES)
    return packing or export_packing(sample, beginning(path), log=log), saved_step


def take_binary(path: Path, sample: bytes, gathered: Gathered, *, given: bool) -> None:
    """Record a file that is not text as skipped, a flight-recorder dump also among the dumps.

    `given`: the user named the file itself; it is then reported as unreadable, as is one that may be a log.
    """
    name = plain(str(path))
    if is_flight_dump(sample):
        gathered.dumps.append(path)
        gathered.skipped.append(Skipped(name, FLIGHT_DUMP))
        return
    log = given or unpacked_name(path.name).endswith(LOG_SUFFIXES) or has_lines(sample)
    gathered.skipped.append(Skipped(name, "binary", unreadable=log))


def inner_name(path: Path, root: Path | None) -> str:
    """Return the path below the folder that the user named.

    For a file that was named itself, its relative path, or folder and name of an absolute one.
    """
    if root is not None:
        return str(path.relative_to(root))
    return str(path) if not path.is_absolute() else "/".join(path.parts[-2:])


def reason(error: OSError) -> str:
    """Return the system's error message in lower case."""
    return (error.strerror or str(error)).lower()
