"""Converts a scan into the frames that agents would send: files, ranks and findings of each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from gpuwatch import __version__
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.runs.scan.result import LogScan, Scan, ScanFinding
from gpuwatch.session.log_folder.report import UNNAMED_NODE
from gpuwatch.wire import (
    AnyFrame,
    Finding,
    FrameError,
    Hello,
    LogFile,
    Logs,
    Process,
    Ranks,
    decode,
    encode,
)

MAX_FILES = 20_000
"""Most files of one node; longer lists are refused by `wire`."""
MAX_FINDINGS = 20_000
"""Most findings that are marked in the logs; a fleet keeps as many."""


def node_frames(scan: Scan, job: str, ended_at: float) -> dict[str, list[AnyFrame]]:
    """Return node -> frames (hello, ranks, log files, findings), nodes by name, the unnamed one last.

    At most MAX_FINDINGS findings in all, and MAX_FILES log files of a node.

    Args:
        scan: The files, as far as they are read.
        job: Name of the job.
        ended_at: When the logs end (unix seconds).
    """
    files: dict[str, list[LogScan]] = defaultdict(list)
    for file in scan.files:
        files[file.node or UNNAMED_NODE].append(file)
    ranks: dict[str, list[RankPlace]] = defaultdict(list)
    for place in scan.places.ranks:
        ranks[place.node or UNNAMED_NODE].append(place)
    unreadable = [
        LogFile(path=each.name, state="unreadable", reason=each.why)
        for each in scan.skipped
        if each.unreadable
    ]
    if unreadable:
        files[UNNAMED_NODE] += []
    found = findings_by_node(scan.located[:MAX_FINDINGS])
    held = ranks_by_file(scan)
    frames: dict[str, list[AnyFrame]] = {}
    for name in sorted(files.keys() | ranks.keys(), key=lambda node: (node == UNNAMED_NODE, _natural(node))):
        listed = [log_file(each, held.get(each.name, ()), job) for each in files[name]]
        listed += unreadable if name == UNNAMED_NODE else []
        more = max(0, len(listed) - MAX_FILES)
        made: list[AnyFrame] = [
            Hello(t=ended_at, seq=0, host=name, agent=__version__, python="", pid=0, interval_s=1.0),
            Ranks(t=ended_at, seq=1, processes=[process(place, job) for place in ranks[name]]),
            Logs(t=ended_at, seq=2, files=listed[:MAX_FILES], truncated=more, complete=True),
            *(structs.replace(each, id=number, job=job) for number, each in enumerate(found[name], 1)),
        ]
        frames[name] = [frame for each in made for frame in sanitized(each)]
    return frames


def _natural(name: str) -> list[tuple[int, str]]:
    digits = "".join(char if char.isdecimal() else " " for char in name).split()
    return [(0, name.rstrip("0123456789")), *((int(number[:18]), "") for number in digits), (0, name)]


def sanitized(frame: AnyFrame) -> Iterator[AnyFrame]:
    """Yield the frame as if it came from a node (bounded, without control characters); nothing if invalid."""
    try:
        yield decode(encode(frame))
    except FrameError:
        return


def findings_by_node(located: Iterable[ScanFinding]) -> Mapping[str, Sequence[Finding]]:
    """Return node -> its findings; those without a known node under `UNNAMED_NODE`."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for each in located:
        found[each.node or UNNAMED_NODE].append(each.finding)
    return found


def ranks_by_file(scan: Scan) -> dict[str, list[int]]:
    """Return file -> sorted ranks that write it; files without known ranks are left out."""
    held: dict[str, set[int]] = defaultdict(set)
    for place in scan.places.ranks:
        for name in place.logs:
            held[name].add(place.rank)
    for file in scan.files:
        held[file.name] |= {series.rank for series in file.series if series.rank is not None}
        held[file.name] |= set() if file.rank is None else {file.rank}
    return {name: sorted(ranks) for name, ranks in held.items() if ranks}


def log_file(file: LogScan, ranks: Iterable[int], job: str) -> LogFile:
    """Return the `LogFile` that an agent would report for this file."""
    return LogFile(
        path=file.name,
        reason=file.trouble,
        source="option",
        size=file.size,
        grown_at=file.last_time or file.mtime or None,
        ranks=list(ranks),
        rank_from="line" if file.rank is None else "path",
        job=None if file.kernel else job,
    )


def process(place: RankPlace, job: str) -> Process:
    """Return the `Process` that an agent would report for this rank.

    If the pid is unknown, a negative one stands for it.
    """
    return Process(
        pid=-1 - place.rank if place.pid is None else place.pid,
        name=f"rank {place.rank}",
        rank=place.rank,
        local_rank=place.local_rank,
        world_size=place.world_size,
        job=job,
        logs=list(place.logs),
    )
