"""Finds ranks of which only a zombie process is left: it has ended, and its parent has not reaped it."""

from __future__ import annotations

from gpuwatch.diagnose.missing_ranks.done_ranks import FinishedTraining
from gpuwatch.diagnose.missing_ranks.listed_ranks import Running
from gpuwatch.diagnose.missing_ranks.missing import MissingRank, missing_rank
from gpuwatch.diagnose.missing_ranks.vanished import names_ranks, nodes_of
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process


def unreaped_ranks(fleet: Fleet, now: float, running: Running) -> list[MissingRank]:
    """Return the ranks that have an ended process and run on no node. `now`: monotonic seconds.

    Other ranks of the job need not be known. Ranks that reached the announced last step are left out.
    """
    found: dict[tuple[str, int], MissingRank] = {}
    training = FinishedTraining(fleet)
    for node in fleet.nodes.values():
        for process in node.processes if names_ranks(node, now) else ():
            job, rank = process.job, process.rank
            if job is None or rank is None or not is_unreaped(process) or (job, rank) in running:
                continue
            if rank not in training.done(job, nodes_of(job, running) | {node.name}):
                found[job, rank] = missing_rank(node, job, rank, process.world_size or 0)
    return list(found.values())


def is_unreaped(process: Process) -> bool:
    """Return True if a rank's process has ended and its parent has not reaped it."""
    return process.rank is not None and process.state == "Z"


def may_be_reaped(node: Node) -> bool:
    """Return True if a rank's process on the node has ended and its parent may still reap it."""
    return any(is_unreaped(process) for process in node.processes)


def has_failed(running: Running, one: MissingRank) -> bool:
    """Return True if other ranks of the rank's job still run, or its process has a failure status."""
    if any(job == one.job for job, _ in running):
        return True
    ended = [each for each in one.node.processes if (each.job, each.rank) == (one.job, one.rank)]
    return any(each.exit_status not in (None, 0) for each in ended)
