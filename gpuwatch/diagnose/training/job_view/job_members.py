"""The GPUs, processes and log files of a job on a node that it shares with other jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.diagnose.training.job_view.rank_placement import Job, RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import LogFile, Process


@dataclass(frozen=True)
class JobMembers:
    """The nodes of one job, and the GPUs and processes there that belong to other jobs only.

    A GPU that no job uses belongs to every job on its node.
    """

    job: Job
    nodes: frozenset[str]
    """Nodes where the job's ranks run or ran, or where its logs are written."""
    foreign: frozenset[tuple[str, str]]
    """(node, UUID) of GPUs that only other jobs use, or used last."""
    foreign_indices: frozenset[tuple[str, int]]
    """The same GPUs by index."""
    foreign_pids: frozenset[tuple[str, int]] = field(default=frozenset(), compare=False)
    """(node, pid) of the ranks of other jobs, running and ended."""

    def has_gpu(self, node: str, uuid: str) -> bool:
        """Return True if a GPU belongs to the job; `node` is one of the job's nodes."""
        return (node, uuid) not in self.foreign

    def has_process(self, node: str, process: Process) -> bool:
        """Return True if a process belongs to the job; one without a job does if it uses a GPU of the job."""
        if process.job is not None:
            return process.job == self.job
        return any(self.has_gpu(node, held.uuid) for held in process.gpus)

    def has_file(self, node: Node, file: LogFile) -> bool:
        """Return True if a log file is of the job.

        One of no job is if no process or one of the job writes it.
        """
        if file.job is not None:
            return file.job == self.job
        writers = [process for process in node.processes if process.pid in file.pids]
        return not writers or any(self.has_process(node.name, process) for process in writers)

    def concerns(self, node: str | None, gpu: int | None) -> bool:
        """Return True if an event at a node, or at one of its GPUs by index, can affect the job."""
        return node in self.nodes and (gpu is None or (node, gpu) not in self.foreign_indices)


def members_of(job: Job, fleet: Fleet, placement: RankPlacement) -> JobMembers:
    """Return the members of a job, from rank placement, log writers and GPU use."""
    own = {(placed.node, placed.uuid) for placed in placement.jobs.get(job, {}).values()}
    used = {
        (placed.node, placed.uuid)
        for name, ranks in placement.jobs.items()
        for placed in ranks.values()
        if name != job and placed.uuid is not None
    }
    for node in fleet.nodes.values():
        for process in node.processes:
            held = {(node.name, gpu.uuid) for gpu in process.gpus}
            (own if process.job == job else used).update(held)
    writers = {writer.node for writer in fleet.progress.writers.values() if writer.job == job}
    foreign = used - own
    return JobMembers(
        job,
        frozenset({name for name, _ in own} | writers),
        frozenset(foreign),
        frozenset(
            (name, fleet.nodes[name].gpus[uuid].info.index)
            for name, uuid in foreign
            if name in fleet.nodes and uuid in fleet.nodes[name].gpus
        ),
        frozenset(
            (placed.node, placed.pid)
            for name, ranks in placement.jobs.items()
            for placed in ranks.values()
            if name not in (None, job)
        ),
    )
