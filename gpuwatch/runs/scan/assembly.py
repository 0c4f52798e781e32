"""Merges the parts of all files into one result."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.programs import KERNEL
from gpuwatch.agent.logs.matching.ruleset import CompiledRule
from gpuwatch.rules.model.checkpoint_lines import BEGUN, SAVED
from gpuwatch.runs.files.excerpts.samples import sampled
from gpuwatch.runs.files.files import Skipped, reason
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.packing import is_section
from gpuwatch.runs.model.clues import Clue, clues_of
from gpuwatch.runs.model.record import Row
from gpuwatch.runs.placement.file_banners import ranks_by_banner
from gpuwatch.runs.placement.job_ranks import TASK, merged, of_ranks, with_census
from gpuwatch.runs.placement.joins.gpu_tables import GpuTable
from gpuwatch.runs.placement.joins.join import Joins, joins, nodes_by_pid
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.placement.rank_census import census
from gpuwatch.runs.placement.rank_facts import Census
from gpuwatch.runs.placement.rank_map import FileOwner, RankMap, rank_map
from gpuwatch.runs.scan.dating import rows_of
from gpuwatch.runs.scan.neighbouring_ranks import give_neighbours
from gpuwatch.runs.scan.reading import PartRead
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
    rules: dict[str, CompiledRule],
    skipped: Sequence[Skipped],
    engine: Engine,
    *,
    stopped: bool,
) -> Scan:
    """Return the result of the scan, made from all parts of the files.

    `stopped`: the scan was ended early.
    """
    owners = [owner_of(file.log) for file in files]
    reads = {file.log.name: file.in_order() for file in files}
    rows = rows_of(files, rules)
    clues = list(clues_in(reads, rows))
    samples = list(sampled([file.log for file in files]))
    found = whole_census(reads, samples)
    joined = with_gpus(joins(samples), reads)
    found.pods.update(joined.pods)
    owners, clues, counted = with_census(owners, clues, found, ranks_by_banner(samples, found))
    known = with_nodes_by_pid(rank_map(owners, clues, joined), owners, rows)
    writers = {log: place.rank for place in reversed(known.places.ranks) for log in place.logs}
    known = with_kernel_logs(replace(known, places=replace(known.places, counted=counted)), owners, files)
    ranks = {place.rank for place in known.places.ranks}
    words = counted | {TASK} if found.tasks.keys() <= ranks else counted
    give_neighbours(rows, [file.log for file in files if file.log.name not in writers], words)
    from_tools = {log for log, found in rows.items() if any("tool" in row["fields"] for row in found)}
    evidence = from_tools | {file.log.name for file in files if path_places(file.log.inner).kernel}
    of_job = known.places.job_logs | {log for log, parts in reads.items() if any(p.series for p in parts)}
    shared = {
        file.log.name for file, (_, lines) in zip(files, samples, strict=True) if is_syslog(file.log, lines)
    }
    system = system_logs([file.log for file in files], evidence - of_job - shared)
    known = replace(known, places=replace(known.places, system_logs=system))
    every = [read for parts in reads.values() for read in parts]
    suspended = {rule: why for read in every for rule, why in read.suspended.items()}
    return Scan(
        tuple(each for file in files for each in located_findings(file.log, rows[file.log.name], known)),
        known.places,
        tuple(
            log_scan(
                file,
                writers.get(file.log.name, owner.rank),
                known,
                counted,
                len(rows[file.log.name]),
                epochs_of(file, sample),
            )
            for file, owner, (_, sample) in zip(files, owners, samples, strict=True)
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


def with_gpus(joined: Joins, reads: Mapping[str, Sequence[PartRead]]) -> Joins:
    """Return the joins with the GPUs that tool outputs of whole files list."""
    for name, parts in reads.items():
        for read in parts:
            if read.gpus:
                joined.gpus.setdefault(name, GpuTable()).addresses.update(read.gpus)
    return joined


def with_nodes_by_pid(known: RankMap, owners: Iterable[FileOwner], rows: Mapping[str, list[Row]]) -> RankMap:
    """Return the map with the nodes of kernel logs that name pids of one node's ranks."""
    names = [owner.file for owner in owners if owner.file not in known.nodes]
    kernel = [name for name in names if path_places(name).kernel]
    return replace(known, nodes={**nodes_by_pid(known.places.ranks, kernel, rows), **known.nodes})


def clues_in(reads: Mapping[str, Sequence[PartRead]], rows: Mapping[str, list[Row]]) -> Iterator[Clue]:
    """Yield what the lines of all files show about the places of ranks."""
    for name, parts in reads.items():
        for read in parts:
            yield from clues_of(name, read.clues)
        yield from clues_of(name, rows[name])


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


def whole_census(
    reads: Mapping[str, Sequence[PartRead]], samples: Iterable[tuple[str, Sequence[bytes]]]
) -> Census:
    """Return the census of all files, with their last steps."""
    found = merged(
        census([(name, lines)]) if (made := census_of(reads[name])) is None else made
        for name, lines in samples
    )
    found.last_steps = {name: last_step_of(parts) for name, parts in reads.items()}
    return found


def last_step_of(parts: Iterable[PartRead]) -> int:
    """Return the last step of a file of one process; -1: of several, none, or the announced last one."""
    series = joined(read.series for read in parts)
    last = max((each.points[-1].step for each in series if each.points), default=-1)
    several = len({(each.rank, each.local_rank, each.host) for each in series}) > 1
    return -1 if several or any(each.total_steps == last for each in series) else last


def census_of(reads: Iterable[PartRead]) -> Census | None:
    """Return the census of a file from the part that has it (the first); None: that part was not read."""
    return next((read.census for read in reads if read.census is not None), None)


def with_kernel_logs(known: RankMap, owners: Sequence[FileOwner], files: Sequence[ScanFile]) -> RankMap:
    """Return the rank map with the times that kernel logs cover, and the names of the job's own logs."""
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
    """Return (text, whether written, time, whether the line states the time) of a checkpoint line.

    The time is in unix seconds.
    """
    return clue["lines"][clue.get("key", 0)], clue["rule"] == SAVED, clue["at"], bool(clue["timed"])


def is_save(clue: Row) -> bool:
    """Return True if a line reports, with a time, that a checkpoint was written."""
    return bool(clue["rule"] == SAVED and clue["timed"])


def located_findings(log: LogPath, rows: Iterable[Row], known: RankMap) -> Iterable[ScanFinding]:
    """Yield the findings of one file, with its node."""
    for row in rows:
        yield ScanFinding(known.nodes.get(log.name), msgspec.convert({"t": 0.0, "seq": 0, **row}, Finding))


def replaced(log: LogPath) -> str | None:
    """Return text if a file is gone, no regular file, or shorter than when it was listed; else None.

    A replacement of the same or a greater size is not noticed.
    """
    try:
        now = log.path.stat()
    except OSError as error:
        return f"changed while it was read: {reason(error)}"
    if not stat.S_ISREG(now.st_mode):
        return "changed while it was read: not a regular file"
    if not is_section(log.packing) and now.st_size < log.size:
        return "changed while it was read: truncated or replaced"
    return None


def has_grown(log: LogPath) -> bool:
    """Return True if a file is longer than when it was listed."""
    try:
        return not is_section(log.packing) and log.path.stat().st_size > log.size
    except OSError:
        return False


def epochs_of(file: ScanFile, sample: Iterable[bytes]) -> EpochSpan | None:
    """Return the epochs named in a file's sample lines and last lines; None: no line names any."""
    lines = [line[:MAX_LINE].decode(errors="replace") for line in sample if b"poch" in line.lower()]
    return epochs_in([*lines, *(line for read in file.in_order() for line in read.last_lines)])


def log_scan(
    file: ScanFile,
    rank: int | None,
    known: RankMap,
    words: frozenset[str],
    findings: int,
    epochs: EpochSpan | None,
) -> LogScan:
    """Return the result for one file.

    Args:
        file: The file with its parts.
        rank: The rank of the file, by its lines or else its path; None: unknown.
        known: The nodes of all files.
        words: The words whose numbers are ranks.
        findings: Number of findings in the file.
        epochs: The epochs that lines of the file name.
    """
    stated = path_places(file.log.inner)
    node = known.nodes.get(file.log.name)
    series = of_ranks(joined(read.series for read in file.in_order()), words)
    return LogScan(
        file.log.name,
        file.log.path,
        file.log.size,
        file.log.packing,
        node,
        rank,
        stated.attempt,
        stated.kernel and not series,
        findings,
        "; ".join(filter(None, [file.trouble, replaced(file.log)])) or None,
        has_grown(file.log),
        file.log.mtime,
        max((read.last_time for read in file.in_order() if read.last_time is not None), default=None),
        series,
        tuple(line for read in file.in_order() for line in read.last_lines),
        epochs,
    )


def is_syslog(log: LogPath, lines: Iterable[bytes]) -> bool:
    """Return True if a kernel log also has lines of other programs, which any user writes by logger(1).

    `lines`: a sample. Lines of systemd do not count, as it writes into the kernel's own log as root.
    """
    if not path_places(log.inner).kernel:
        return False
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
