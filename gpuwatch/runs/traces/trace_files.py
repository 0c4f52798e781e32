"""Finds and measures the traces under the given paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.plain import plain
from gpuwatch.runs.files.encodings import HEAD_BYTES
from gpuwatch.runs.files.files import Skipped, reason, walked
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents, packing_of
from gpuwatch.runs.traces.chrome_trace import read_chrome_trace
from gpuwatch.runs.traces.event_stream import NoTraceError
from gpuwatch.runs.traces.nccl_dump import MAX_XML_BYTES, NcclDump, read_nccl_dump
from gpuwatch.runs.traces.nsight_export import SQLITE_BEGINS, read_nsight
from gpuwatch.runs.traces.operators import MAX_LISTED_OPERATORS
from gpuwatch.runs.traces.rank_profile import RankProfile, measure, newest_cycles
from gpuwatch.runs.traces.rank_trace import RankTrace

TRACE_NAMES = re.compile(r"\.(json|sqlite|db|xml)(\.(gz|zst|xz|bz2))?$", re.IGNORECASE)
"""Matches names of possible traces in a folder; a file that is named directly is always tried."""
RANK_IN_NAME = re.compile(r"(?<![a-z])(?:rank|worker|proc)[-_ ]?(\d{1,7})(?!\d)", re.IGNORECASE)
MAX_TRACE_FILES = 4096
OTHER_REPORTS = {
    ".nsys-rep": "a report of Nsight Systems: export it with  nsys export --type sqlite {name}",
    ".qdrep": "a report of Nsight Systems: export it with  nsys export --type sqlite {name}",
    ".ncu-rep": "a kernel report of Nsight Compute: open it with  ncu-ui {name}",
}


@dataclass
class FoundTraces:
    """The measured ranks (their newest and their older traces), NCCL dumps, and skipped files."""

    profiles: list[RankProfile] = field(default_factory=list)
    """One profile per rank; if a rank has several cycles, the newest."""
    older: list[RankProfile] = field(default_factory=list)
    """Earlier cycles of the ranks in `profiles`; not compared."""
    dumps: list[NcclDump] = field(default_factory=list)
    """NCCL's dumps of topologies and graphs."""
    skipped: list[Skipped] = field(default_factory=list)


def gather_traces(
    paths: Sequence[Path],
    report: Callable[[int], None] = lambda _bytes: None,
    listed: int = MAX_LISTED_OPERATORS,
) -> FoundTraces:
    """Read and measure the traces one file at a time; in a folder, only files with the name of a trace.

    No further file is read once there are `MAX_TRACE_FILES` traces; a file may have those of several ranks.

    Args:
        paths: Files and folders.
        report: Called with the bytes read so far, of all files.
        listed: Rows of each table of operators.
    """
    found = FoundTraces()
    before = 0
    for path, root in walked(paths, found.skipped, set()):
        if root is not None and TRACE_NAMES.search(path.name) is None:
            continue
        if len(found.profiles) >= MAX_TRACE_FILES:
            found.skipped.append(Skipped(plain(str(path)), "too many traces at once", unreadable=True))
            break
        name = plain(str(path))
        try:
            dump = _nccl_dump(path, name)
            if dump is not None:
                found.dumps.append(dump)
                continue
            for trace in _read(path, name, lambda size, base=before: report(base + size)):  # type: ignore[misc]  # a default of a lambda has no type
                found.profiles.append(measure(trace, listed))
            before += path.stat().st_size
        except NoTraceError as error:
            found.skipped.append(Skipped(name, str(error), unreadable=root is None))
        except OSError as error:
            found.skipped.append(Skipped(name, reason(error), unreadable=True))
    found.profiles, found.older = newest_cycles(sorted(found.profiles, key=_by_rank))
    return found


def total_size(paths: Sequence[Path]) -> int:
    """Return the total bytes of the files that `gather_traces` reads, for a progress bar."""
    ignored: list[Skipped] = []
    return sum(
        path.stat().st_size
        for path, root in walked(paths, ignored, set())
        if (root is None or TRACE_NAMES.search(path.name)) and path.is_file()
    )


def _by_rank(profile: RankProfile) -> tuple[int, int, str]:
    trace = profile.trace
    last = 1 << 31
    return (
        last if trace.rank is None else trace.rank,
        last if trace.device is None else trace.device,
        trace.file,
    )


def rank_of_path(path: Path) -> int | None:
    """Return the rank in the name of a trace (`rank3.json`) or of its folder (`rank_3`).

    None: neither has one.
    """
    for part in (path.name, path.parent.name):
        found = RANK_IN_NAME.search(part)
        if found is not None:
            return int(found[1])
    return None


def _nccl_dump(path: Path, name: str) -> NcclDump | None:
    """Return a file parsed as an NCCL dump; None if it is not XML.

    Raises:
        NoTraceError: as `read_nccl_dump`.
        OSError: it cannot be read.
    """
    with open_file(path) as file:
        contents = Contents(path, packing_of(file.read(HEAD_BYTES)))
    pieces = contents.pieces()
    held = next(pieces, b"").lstrip(b"\xef\xbb\xbf \t\r\n")
    if not held.startswith(b"<"):
        return None
    for piece in pieces:
        held += piece
        if len(held) > MAX_XML_BYTES:
            break
    return read_nccl_dump(held, name)


def _read(path: Path, name: str, report: Callable[[int], None]) -> list[RankTrace]:
    hint = OTHER_REPORTS.get(path.suffix)
    if hint is not None:
        raise NoTraceError(hint.format(name=name))
    with open_file(path) as file:
        head = file.read(HEAD_BYTES)
    rank = rank_of_path(path)
    if head.startswith(SQLITE_BEGINS):
        return read_nsight(path, name, rank)
    contents = Contents(path, packing_of(head))

    def pieces() -> object:
        for piece in contents.pieces():
            report(contents.read)
            yield piece

    try:
        traces = read_chrome_trace(pieces(), name, rank)  # type: ignore[arg-type]  # an iterator of pieces, read once
    except NoTraceError as error:
        raise NoTraceError(contents.damage or str(error)) from error
    for trace in traces:
        if contents.damage is not None:
            trace.notes.append(contents.damage)
    return traces
