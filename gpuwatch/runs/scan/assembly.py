"""Merges the parts of all files into one result."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gpuwatch.agent.logs.checkpoints.checkpoint_lines import BEGUN, SAVED
from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.programs import KERNEL
from gpuwatch.agent.logs.matching.ruleset import CompiledRule
from gpuwatch.runs.files.files import Skipped, reason
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.packing import is_section
from gpuwatch.runs.model.containment import contained, from_sound
from gpuwatch.runs.model.record import Row
from gpuwatch.runs.placement.job_ranks import is_tag, of_ranks
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.placement.rank_map import RankMap
from gpuwatch.runs.scan.dating import rows_of
from gpuwatch.runs.scan.neighbouring_ranks import give_neighbours
from gpuwatch.runs.scan.placing import FileEvidence, placed
from gpuwatch.runs.scan.result import Engine, LogScan, Scan, ScanFinding
from gpuwatch.runs.scan.scan_file import ScanFile, owner_of
from gpuwatch.runs.steps.epochs import EpochSpan, epochs_in
from gpuwatch.runs.steps.job_folders import MAX_JOBS, folder_of, job_folders
from gpuwatch.runs.steps.step_series import MAX_LINE, joined
from gpuwatch.runs.steps.unfinished import unfinished
from gpuwatch.wire import Finding

FIRST_USER_ID = 1000
"""First user id of persons; lower ids are those of the system (UID_MIN of login.defs)."""


def whole(
    files: Sequence[ScanFile],
    samples: Mapping[str, Sequence[bytes]],
    rules: dict[str, CompiledRule],
    skipped: Sequence[Skipped],
    engine: Engine,
    *,
    stopped: bool,
) -> Scan:
    """Return the result of the scan, made from all parts of the files.

    A file over which gpuwatch has a fault is named in its result, and is not used for that step.

    Args:
        files: The files, with what is read of them; findings in them are modified.
        samples: File -> its sample lines.
        rules: Id -> rule.
        skipped: The files that are not read.
        engine: The engine that searched the files.
        stopped: The scan was ended early.
    """
    rows = rows_of(files, rules)
    evidence = [FileEvidence(file, samples.get(file.log.name, ()), rows[file.log.name]) for file in files]
    found, faults = from_sound(placed, evidence)
    running, more = from_sound(unfinished, [(each.file.log.name, each.sample) for each in evidence])
    for at, why in (*faults.items(), *more.items()):
        files[at].add(why)
    for file in files:
        if file.log.name not in found.writers:
            file.add(contained(give_neighbours, rows[file.log.name], file.log, found.words, rules)[1])
    known = with_system_logs(found.known, evidence)
    located = [each for one in evidence for each in located_findings(one, known)]
    every = [read for file in files for read in file.in_order()]
    return Scan(
        tuple(located),
        known.places,
        tuple(log_scan(each, found.ranks.get(each.file.log.name), known, found.counted) for each in evidence),
        tuple(skipped),
        sum(read.bytes for read in every),
        engine,
        sum(read.left_out for read in every),
        {rule: why for read in every for rule, why in read.suspended.items()},
        tuple(row["at"] for read in every for row in read.clues if is_save(row)),
        tuple(checkpoint_line(row) for read in every for row in read.clues if row["rule"] in (SAVED, BEGUN)),
        stopped,
        running,
    )


def with_folders(files: Sequence[ScanFile], made_of: Callable[[Sequence[ScanFile]], Scan]) -> Scan:
    """Return the result for all files, and that of each folder if steps of a rank are in several.

    There are no folders' results if paths name attempts, or with more than `MAX_JOBS` folders. A folder's
    result also includes files outside of these folders, without those of a node that only other folders' jobs
    used. Each result is made of copies, because making a result modifies its files.
    """
    folders = job_folders({file.log.name: ranks for file in files if (ranks := ranks_with_steps(file))})
    attempts = any(path_places(file.log.inner).attempt is not None for file in files)
    if attempts or not 1 < len(folders) <= MAX_JOBS:
        return made_of(files)
    kept = {file.log.name: pickle.dumps(file) for file in files}
    scan = made_of(files)
    homes = {file.name: folder_of(file.name, folders) for file in scan.files}
    nodes: dict[str, set[str | None]] = {folder: set() for folder in folders}
    for each in scan.files:
        if (home := homes[each.name]) is not None:
            nodes[home] |= {each.node, *(series.host for series in each.series)}
    used = set().union(*nodes.values()) - {None}
    apart = {file.name for file in scan.files if file.node in used and homes[file.name] is None}
    results = {}
    for folder in folders:
        names = [
            file.name
            for file in scan.files
            if homes[file.name] == folder
            or (homes[file.name] is None and (file.name not in apart or file.node in nodes[folder]))
        ]
        results[folder] = made_of([pickle.loads(kept[name]) for name in names])  # noqa: S301 - our own
    return replace(scan, folders=results)


def ranks_with_steps(file: ScanFile) -> set[int | None]:
    """Return the ranks of which a file has steps towards an announced last step; None: an unknown rank."""
    owner = owner_of(file.log).rank
    return {
        owner if series.rank is None else series.rank
        for read in file.in_order()
        for series in read.series.values()
        if series.points and series.total_steps is not None and not series.per_epoch
    }


def checkpoint_line(clue: Row) -> tuple[str, bool, float, bool]:
    """Return (text, whether written, time, whether the line states the time) of a checkpoint line.

    The time is in unix seconds.
    """
    return clue["lines"][clue.get("key", 0)], clue["rule"] == SAVED, clue["at"], bool(clue["timed"])


def is_save(clue: Row) -> bool:
    """Return True if a line reports, with a time, that a checkpoint was written."""
    return bool(clue["rule"] == SAVED and clue["timed"])


def located_findings(one: FileEvidence, known: RankMap) -> Sequence[ScanFinding]:
    """Return the findings of one file, with its node; those that raise an error are left out."""
    node = known.nodes.get(one.file.log.name)

    def located(rows: Sequence[Row]) -> Sequence[ScanFinding]:
        return [
            ScanFinding(node, msgspec.convert({"t": 0.0, "seq": 0, **without_tag(row, known)}, Finding))
            for row in rows
        ]

    found, faults = from_sound(located, one.rows)
    for why in faults.values():
        one.file.add(why)
    return found


def without_tag(row: Row, known: RankMap) -> Row:
    """Return the row without a host that is only the number by which its line calls the rank: `r5`."""
    host, number = row.get("host"), row.get("rank", row.get("index"))
    is_rank = "rank" in row or row.get("index_of") in known.places.counted
    return {**row, "host": None} if host and is_rank and is_tag(host, number) else row


def size_change(log: LogPath) -> tuple[str | None, bool]:
    """Return text if a file is gone, no regular file, or shorter than listed, and whether it is longer.

    A replacement of the same or a greater size is not noticed.
    """
    try:
        now = log.path.stat()
    except OSError as error:
        return f"changed while it was read: {reason(error)}", False
    if not stat.S_ISREG(now.st_mode):
        return "changed while it was read: not a regular file", False
    if is_section(log.packing):
        return None, False
    if now.st_size < log.size:
        return "changed while it was read: truncated or replaced", False
    return None, now.st_size > log.size


def epochs_of(file: ScanFile, sample: Iterable[bytes]) -> EpochSpan | None:
    """Return the epochs named in a file's sample lines and last lines; None: no line names any."""
    lines: list[str] = []
    if b"poch" in b"\n".join(sample).lower():
        lines = [line[:MAX_LINE].decode(errors="replace") for line in sample if b"poch" in line.lower()]
    return epochs_in([*lines, *(line for read in file.in_order() for line in read.last_lines)])


def log_scan(one: FileEvidence, rank: int | None, known: RankMap, words: frozenset[str]) -> LogScan:
    """Return the result for one file; without steps and epochs, if reading these raises an error.

    Args:
        one: The file with its parts, sample lines and findings.
        rank: The rank of the file; None: unknown.
        known: The nodes of all files.
        words: The words whose numbers are ranks.
    """
    file = one.file
    stated = path_places(file.log.inner)
    series, fault = contained(lambda: of_ranks(joined(read.series for read in file.in_order()), words))
    epochs, unsure = contained(epochs_of, file, one.sample)
    file.add(fault or unsure)
    change, has_grown = size_change(file.log)
    return LogScan(
        file.log.name,
        file.log.path,
        file.log.size,
        file.log.packing,
        known.nodes.get(file.log.name),
        rank,
        stated.attempt,
        stated.kernel and not series,
        len(one.rows),
        "; ".join(filter(None, [file.trouble, change])) or None,
        has_grown,
        file.log.mtime,
        max((read.last_time for read in file.in_order() if read.last_time is not None), default=None),
        series or (),
        tuple(line for read in file.in_order() for line in read.last_lines),
        epochs,
    )


def with_system_logs(known: RankMap, files: Sequence[FileEvidence]) -> RankMap:
    """Return the rank map with the names of files into which no user of the job writes lines."""
    kernel = {each.file.log.name for each in files if path_places(each.file.log.inner).kernel}
    tools = {each.file.log.name for each in files if any("tool" in row["fields"] for row in each.rows)}
    of_job = {each.file.log.name for each in files if any(read.series for read in each.file.in_order())}
    shared = {
        each.file.log.name
        for each in files
        if each.file.log.name in kernel and contained(is_syslog, each.sample)[0] is not False
    }
    evidence = (kernel | tools) - known.places.job_logs - of_job - shared
    system = system_logs([each.file.log for each in files], evidence)
    return replace(known, places=replace(known.places, system_logs=system))


def is_syslog(lines: Iterable[bytes]) -> bool:
    """Return True if a kernel log also has lines of other programs, which any user writes by logger(1).

    `lines`: a sample. Lines of systemd do not count, as it writes into the kernel's own log as root.
    """
    programs = {written_by.program for line in lines for _, written_by in messages(line)[0]}
    return any(each not in (None, KERNEL) and not each.startswith("systemd") for each in programs)


def system_logs(logs: Sequence[LogPath], evidence: Collection[str]) -> frozenset[str]:
    """Return the names of evidence files that belong to the system or the user, not to another account here.

    In a folder that one account wrote or copied, the writer of each file is unknown.

    Args:
        logs: All scanned files.
        evidence: Names of kernel logs and tool outputs among them, into which no user writes lines.
    """
    writers = {log.owner for log in logs if log.name not in evidence}
    return frozenset(log.name for log in logs if log.name in evidence and _is_trusted(log.owner, writers))


def _is_trusted(owner: int, writers: Collection[int]) -> bool:
    is_own = 0 <= owner < FIRST_USER_ID or owner == os.geteuid()
    return is_own and owner not in writers
