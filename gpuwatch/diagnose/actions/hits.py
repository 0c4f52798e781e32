"""The ranks, jobs, GPUs and nodes that a command affects, as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.names import fold
from gpuwatch.hosts.plan import Allocation
from gpuwatch.number_text import plural
from gpuwatch.wire import Process

MAX_COMMAND_CHARS = 80


def node_hits(node: Node) -> tuple[str, ...]:
    """Return lines of text: a node's GPU count, then its ranks by job, or `no rank runs there`."""
    lines = [f"{node.name}: {plural(len(node.gpus), 'GPU')}"]
    jobs = sorted({process.job or "" for process in node.processes if process.rank is not None})
    for job in jobs:
        ranks = _ranks(process for process in node.processes if (process.job or "") == job)
        lines.append(f"runs {_job(job)}, {ranks_text(ranks)}")
    return tuple(lines) if jobs else (*lines, "no rank runs there")


def job_hits(fleet: Fleet, job: str | None) -> tuple[str, ...]:
    """Return lines of text: a job's ranks, GPUs, nodes and users, or that gpuwatch sees no rank of it."""
    members = [
        (node, process)
        for node in fleet.nodes.values()
        for process in node.processes
        if process.rank is not None and process.job == job
    ]
    if not members:
        return ("gpuwatch sees no rank of the job",)
    gpus = {gpu.uuid for _, process in members for gpu in process.gpus}
    nodes = sorted({node.name for node, _ in members})
    ranks = {process.rank for _, process in members}
    users = ", ".join(sorted(users_of(fleet, job)))
    return (
        f"{plural(len(ranks), 'rank')} on {plural(len(gpus), 'GPU')} of {plural(len(nodes), 'node')}",
        f"nodes: {fold(nodes)}",
        *([f"user: {users}"] if users else []),
    )


def users_of(fleet: Fleet, job: str | None) -> set[str]:
    """Return the user names of a job's ranks, as far as their nodes report them."""
    return {user for user in _stated_users(fleet, job) if user}


def is_of_user(fleet: Fleet, job: str | None, user: str) -> bool:
    """Return True if `user` alone has the ranks of a job in `fleet`, or if no rank of it is known.

    Ranks of unknown user do not count, but at least one rank must have a user.
    """
    return {found for found in _stated_users(fleet, job) if found} == {user} or not _stated_users(fleet, job)


def _stated_users(fleet: Fleet, job: str | None) -> set[str | None]:
    return {
        process.user
        for node in fleet.nodes.values()
        for process in node.processes
        if process.rank is not None and process.job == job
    }


def slurm_words(allocation: Allocation | None) -> tuple[str, ...]:
    """Return the state of a job in Slurm as one line; empty if the allocation is unknown."""
    if allocation is None:
        return ()
    user = f", user {allocation.user}" if allocation.user else ""
    return (f"Slurm: job {allocation.job} ({allocation.name}){user}: {allocation.state}",)


def rank_hits(node: Node, process: Process, fleet: Fleet) -> tuple[str, ...]:
    """Return lines of text: a rank's process, GPUs, command, and how many other ranks depend on it."""
    index = {gpu.info.uuid: gpu.info.index for gpu in node.gpu_list()}
    gpus = ", ".join(str(index[held.uuid]) for held in process.gpus if held.uuid in index)
    others = {
        other.rank
        for each in fleet.nodes.values()
        for other in each.processes
        if other.rank not in (None, process.rank) and other.job == process.job
    }
    what = (process.command or process.name)[:MAX_COMMAND_CHARS]
    lines = [f"rank {process.rank} of {_job(process.job)}: process {process.pid} on {node.name}"]
    lines += [f"GPU {gpus} of {node.name}"] if gpus else []
    lines += [f"command: {what}"]
    if others:
        lines.append(f"{plural(len(others), 'other rank')} of the job lose it: the job ends or restarts")
    return tuple(lines)


def gpu_hits(node: Node, gpu: Gpu) -> tuple[str, ...]:
    """Return lines of text: a GPU, the processes that hold it, and what its reset needs."""
    holders = [each for each in node.processes if gpu.info.uuid in {held.uuid for held in each.gpus}]
    lines = [f"GPU {gpu.info.index} of {node.name}: {gpu.info.name}, {gpu.info.uuid}"]
    for each in holders:
        rank = "" if each.rank is None else f", rank {each.rank} of {_job(each.job)}"
        lines.append(f"held by process {each.pid} {each.name}{rank}: the driver refuses the reset")
    return (*lines, "the reset needs root on the node; GPUs on one NVSwitch may have to be reset together")


def _ranks(processes: Iterable[Process]) -> list[int]:
    return sorted({process.rank for process in processes if process.rank is not None})


def _job(job: str | None) -> str:
    return f"job {job}" if job else "a job without a name"
