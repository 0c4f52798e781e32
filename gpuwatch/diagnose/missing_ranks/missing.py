"""Ranks that have no process although living siblings show that they should exist."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from msgspec import Struct

from gpuwatch.diagnose.missing_ranks.done_ranks import FinishedTraining
from gpuwatch.diagnose.missing_ranks.listed_ranks import ListedRanks, Member, Running
from gpuwatch.diagnose.missing_ranks.vanished import names_ranks, stepped_since
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.whole_number import RANK_DIGITS, whole_number
from gpuwatch.wire import LogFile, Process

MAX_LOCAL_RANKS = 1024
"""Most ranks of one node: more than any machine has GPUs.

The number is limited since any process may state it.
"""
STARTED_S = 30.0
"""Age in seconds of one rank of a job below which the others may still be starting."""
STEPS_NOW_S = 15.0
"""Seconds after a logged step in which a job counts as complete: it has all its ranks."""


class MissingRank(Struct, frozen=True):
    """A rank without a process, and the node on which, by its siblings, it ran."""

    node: Node
    job: str
    rank: int
    world_size: int
    last_line: str | None
    """The last line of the rank's own log, if known."""
    logged_at: float | None = None
    """When the rank's own log last grew (unix seconds on our clock), if it has one."""
    file: str | None = None
    """Its own log."""


def missing_ranks(fleet: Fleet, now: float, running: Running | None = None) -> list[MissingRank]:
    """Return the ranks of running jobs that have no process. `now`: monotonic seconds.

    `running`: which node runs each rank; None: from the current lists. Entries of other nodes for such a rank
    are ignored; a node that lists only ended ranks adds those that are expected on no other node.

    The expected ranks of a node follow from LOCAL_WORLD_SIZE, from a rendezvous on the node's loopback, or
    from a rank's own log there; the log counts only while all nodes report, as a rank of another node may
    write it. These are left out: jobs that are starting, jobs on unreachable nodes, ranks that reached the
    announced last step, and jobs that log steps now (a rank that is not seen there runs without a rank in its
    environment). At most `MAX_LOCAL_RANKS` are returned per node.
    """
    found: list[MissingRank] = []
    training, left = FinishedTraining(fleet), dict.fromkeys(fleet.nodes, MAX_LOCAL_RANKS)
    running = ListedRanks().update(fleet.nodes.values()) if running is None else running
    all_report = all(names_ranks(node, now) for node in fleet.nodes.values())
    for job, listed in members_by_job(fleet).items():
        members, ended = _believed(listed, running)
        if not members or not seen_whole(members, now):
            continue
        present = {each.rank for _, each in members if each.rank is not None and each.state != "Z"}
        world = members[0][1].world_size or 0
        here: dict[str, list[Process]] = defaultdict(list)
        for node, process in members:
            here[node.name].append(process)
        dues = {
            name: _due(fleet.nodes[name], job, processes, world, by_logs=all_report)
            for name, processes in here.items()
        }
        anywhere = present.union(*dues.values())
        for node, process in ended:
            if names_ranks(node, now) and process.rank is not None and process.rank not in anywhere:
                dues.setdefault(node.name, set()).add(process.rank)
        if stepped_since(fleet, job, dues, now - STEPS_NOW_S):
            continue
        done = training.done(job, dues)
        for name, due in dues.items():
            lacking = [rank for rank in sorted(due - present) if rank < world and rank not in done]
            found += [missing_rank(fleet.nodes[name], job, rank, world) for rank in lacking[: left[name]]]
            left[name] -= min(left[name], len(lacking))
    return found


def _believed(members: Collection[Member], running: Running) -> tuple[list[Member], list[Member]]:
    """Return the processes on nodes that run ranks of the job, and the ended ones on other nodes.

    Ended processes whose rank runs elsewhere are left out.
    """
    on = [running.get((process.job or "", process.rank or 0), {}) for _, process in members]
    known = [
        (node, process)
        for (node, process), nodes in zip(members, on, strict=True)
        if node.name in nodes or (process.state == "Z" and not nodes)
    ]
    living = {node.name for node, process in known if process.state != "Z"}
    return [each for each in known if each[0].name in living], [
        each for each in known if each[0].name not in living
    ]


def members_by_job(fleet: Fleet) -> dict[str, list[Member]]:
    """Return job -> its processes that have a rank, with their nodes."""
    jobs: dict[str, list[Member]] = defaultdict(list)
    for node in fleet.nodes.values():
        for process in node.processes:
            if process.job is not None and process.rank is not None:
                jobs[process.job].append((node, process))
    return jobs


def seen_whole(members: Collection[Member], now: float) -> bool:
    """Return True if all nodes of a job report, its ranks are consistent, and no rank has just started.

    Consistent: each rank once, none inferred, one world size with all ranks below it, and one alive.
    """
    counts = Counter(process.rank for _, process in members)
    sizes = {process.world_size for _, process in members}
    if max(counts.values()) > 1 or len(sizes) != 1 or any(process.inferred for _, process in members):
        return False
    size = next(iter(sizes))
    if size is not None and any(rank is not None and rank >= size for rank in counts):
        return False  # a rank number is not below the stated world size
    if not any(process.state != "Z" for _, process in members):
        return False
    nodes = {node.name: node for node, _ in members}.values()
    if not all(names_ranks(node, now) for node in nodes):
        return False
    return all(age_s(node, process, now) >= STARTED_S for node, process in members)


def age_s(node: Node, process: Process, now: float) -> float:
    """Return the seconds since the process started, by the node's clock; 0.0 if unknown."""
    own_time = node.own_time(now)
    return 0.0 if own_time is None or process.start is None else own_time - process.start


def _due(node: Node, job: str, here: Collection[Process], world: int, *, by_logs: bool) -> set[int]:
    """Return the ranks that should run on a node, by its processes (also ended ones) and by its own logs."""
    began = min(process.start or 0.0 for process in here)
    due = {
        rank
        for file in node.logs
        if by_logs and _is_own_log(file, job) and (file.grown_at or 0.0) >= began
        for rank in file.ranks
    }
    blocks = {_block(process, world) for process in here}
    due.update(each.rank for each in here if each.rank is not None)
    block = next(iter(blocks)) if len(blocks) == 1 else None
    if block is not None:
        due.update(range(*block))
    due.update(each.rank for each in here if each.rank is not None and each.state == "Z")
    return {rank for rank in due if rank < world}


def _block(process: Process, world: int) -> tuple[int, int] | None:
    """Return the node's first rank and the end (exclusive) of its range.

    None: the range is unknown, or its ranks are not consecutive.
    """
    rank, local = process.rank, process.local_rank
    if rank is None or local is None or process.variables.get("RANK") not in (None, str(rank)):
        return None
    size = process.variables.get("LOCAL_WORLD_SIZE", "")
    several = whole_number(size, RANK_DIGITS)
    if several is not None and local < several <= world:
        return _range(rank - local, rank - local + several)
    return _range(0, world) if not size and process.on_loopback else None


def _range(first: int, end: int) -> tuple[int, int] | None:
    return (first, end) if end - first <= MAX_LOCAL_RANKS else None


def _is_own_log(file: LogFile, job: str) -> bool:
    return file.job == job and len(file.ranks) == 1 and file.identity is None and file.source != "kernel"


def missing_rank(node: Node, job: str, rank: int, world: int) -> MissingRank:
    """Return the rank with the last line of its own log, if known."""
    logs = [file for file in node.logs if _is_own_log(file, job) and file.ranks == [rank]]
    newest = max(logs, key=lambda file: file.grown_at or 0.0, default=None)
    if newest is None:
        return MissingRank(node, job, rank, world, None)
    last_line = next((file.last_lines[-1] for file in (newest, *logs) if file.last_lines), None)
    grown = None if newest.grown_at is None else newest.grown_at - node.offset_s
    return MissingRank(node, job, rank, world, last_line, grown, newest.path)
