"""Finds the ranks whose logs are not followed, so that missing lines are not taken for silence."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import LogFile


class Unlogged(Struct, frozen=True):
    """The ranks of one job whose output is in no followed file, and their nodes."""

    job: str | None
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]


class Unranked(Struct, frozen=True):
    """The processes of one node that write training logs and are not in its list of processes."""

    node: str
    pids: tuple[int, ...]
    files: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return text: `n1: 2 processes write training logs (/r/a.log and 1 more), no rank is known`."""
        count, more = len(self.pids), len(self.files) - 1
        which = f"{self.files[0]} and {more} more" if more else self.files[0]
        verb = "processes write" if count > 1 else "process writes"
        return f"{self.node}: {count} {verb} training logs ({which}), no rank is known"


def unranked(nodes: Iterable[Node]) -> list[Unranked]:
    """Return, for each live node that has such, the unlisted processes that write training logs."""
    found = []
    for node in nodes:
        files = [file for file in node.logs if file.source == "found" and file.pids]
        listed = {process.pid for process in node.processes}
        pids = sorted({pid for file in files for pid in file.pids} - listed) if files else []
        if pids and node.link.phase == "live":
            paths = tuple(file.path for file in files if not listed.issuperset(file.pids))
            found.append(Unranked(node.name, tuple(pids), paths))
    return found


def unlogged(nodes: Iterable[Node]) -> list[Unlogged]:
    """Return the unlogged ranks of each job, on nodes whose processes and log files are known.

    A rank is covered by a file that it writes, that names it, or that belongs to its job without naming any
    rank. A file that a launcher writes covers only ranks whose output goes into a pipe.
    """
    nodes = [node for node in nodes if node.link.phase == "live" and node.logs_complete and node.processes_at]
    own = {(file.job, rank) for node in nodes for file in filter(_is_log, node.logs) for rank in file.ranks}
    unnamed = [file for node in nodes for file in node.logs if _is_log(file) and not file.ranks]
    shared = {(file.job, bool(file.pids)) for file in unnamed}
    """(job, True if a launcher writes the file and no rank does)."""
    missing: dict[str | None, list[tuple[int, str]]] = {}
    for node in nodes:
        read = {file.path for file in node.logs if _is_log(file)}
        for process in node.processes:
            rank, job = process.rank, process.job
            if rank is None or not {(job, rank), (None, rank)}.isdisjoint(own):
                continue
            through = {(job, False), (None, False), *([(job, True)] if process.piped else [])}
            if read.isdisjoint(process.logs) and through.isdisjoint(shared):
                missing.setdefault(job, []).append((rank, node.name))
    return [
        Unlogged(job, tuple(sorted({rank for rank, _ in found})), tuple(dict.fromkeys(n for _, n in found)))
        for job, found in missing.items()
    ]


def ranks_without_log(nodes: Iterable[Node], job: str | None, world: int) -> set[int]:
    """Return the ranks below `world` whose logs are not read.

    If logs of unknown ranks may be theirs, only the ranks of `unlogged` are returned.

    Args:
        nodes: With their processes and log files.
        job: The ranks' job; None: files and processes of every job count.
        world: The job's world size.
    """
    nodes = list(nodes)
    missing = {rank for each in unlogged(nodes) if job in (None, each.job) for rank in each.ranks}
    files = [
        file
        for node in nodes
        for file in node.logs
        if _is_log(file) and file.state != "unreadable" and (job is None or file.job in (job, None))
    ]
    running = {process.rank for node in nodes for process in node.processes if job in (None, process.job)}
    named = {rank for file in files for rank in file.ranks}
    unknown = set(range(world)) - named - running
    shared = [file for file in files if not file.ranks or file.rank_from == "line"]
    may_be_theirs = len(shared) >= len(unknown) or any(file.ranks for file in shared)
    if files and (may_be_theirs or not named):
        unknown = set()
    return missing | unknown


def _is_log(file: LogFile) -> bool:
    """Return True if a file is not the kernel log; unreadable files count, and are reported separately."""
    return file.source != "kernel"
