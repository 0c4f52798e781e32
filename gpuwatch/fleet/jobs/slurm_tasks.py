"""Detects jobs whose Slurm task numbers are their ranks, by the findings in their logs.

`srun -l` prefixes each line with the task number, and `srun` reports the node of a failed task. The tasks are
the ranks unless each task starts several ranks, as with `srun torchrun`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import SLURM_TASK, Finding, Process

MAX_TASKS = 100_000
MAX_JOBS = 256


def task_numbers(text: str) -> list[int]:
    """Return the tasks in `2`, `4-7` or `0,2-3`, without malformed and too large ones; empty if too many."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not last) and int(last or first) < MAX_TASKS:
            found += range(int(first), int(last or first) + 1)
    return found if len(found) <= MAX_TASKS else []


@dataclass
class _JobTasks:
    """The tasks of one job that findings name, and what shows whether tasks are ranks."""

    nodes: dict[int, str | None] = field(default_factory=dict)
    """Task -> the host that `srun` reports for it; None: only a line prefix names the task."""
    most_rank: int = -1
    """The highest rank that a log line of the job names."""
    line_ranks: set[int] = field(default_factory=set)
    """The ranks that log lines of the job name."""
    launched: bool = False
    """True if a launcher of several ranks writes to the job's log."""

    def are_ranks(self) -> bool:
        """Return True if the tasks count from 0 without a gap, and no line shows that they are not ranks."""
        known = self.nodes.keys() | (self.line_ranks if any(self.nodes.values()) else set())
        return are_whole(known) and not self.launched and self.most_rank < len(known)


class TaskRanks:
    """Tracks the jobs in which every rank equalled its Slurm task number."""

    def __init__(self) -> None:
        self._alike: OrderedDict[str, bool] = OrderedDict()

    def take(self, processes: Iterable[Process]) -> None:
        """Update, for each job, whether every rank equals its Slurm task number.

        `processes`: of one node, with their jobs named.
        """
        for process in processes:
            if process.rank is not None and process.job is not None:
                same = _is_task(process) and self._alike.pop(process.job, True)
                self._alike[process.job] = same
        while len(self._alike) > MAX_JOBS:
            self._alike.popitem(last=False)

    def are_ranks(self, job: str | None) -> bool:
        """Return True if the number that `srun -l` puts before a line of the job is the rank."""
        return job is not None and self._alike.get(job, False)


def _is_task(process: Process) -> bool:
    of_task, tasks = process.variables.get("SLURM_PROCID"), process.variables.get("SLURM_NTASKS")
    return of_task == str(process.rank) and tasks == str(process.world_size)


def are_whole(tasks: Collection[int]) -> bool:
    """Return True if there are several tasks, numbered from 0 without a gap, as ranks are."""
    return len(tasks) > 1 and max(tasks) == len(tasks) - 1


class SlurmTasks:
    """Collects the tasks that findings name, by job; `version` increases with each new one."""

    def __init__(self) -> None:
        self.version = 0
        self._jobs: OrderedDict[str, _JobTasks] = OrderedDict()

    def note(self, finding: Finding, *, launched: bool) -> None:
        """Add the task that a finding names to its job; findings of running jobs are ignored.

        The processes of a running job are the better source. `launched`: only a launcher of several ranks
        prints such lines.
        """
        if finding.job is None or not finding.backlog:
            return
        tasks: dict[int, str | None] = {}
        if "node" in finding.fields:
            named = task_numbers(str(finding.fields.get("tasks", "")))
            tasks.update(dict.fromkeys(named, str(finding.fields["node"])))
        if finding.index is not None and finding.index_of == SLURM_TASK:
            tasks.setdefault(finding.index, None)
        launched = launched or "local_rank" in finding.fields
        rank = -1 if finding.rank is None or finding.rank_from == "index" else finding.rank
        if not tasks and not launched and rank < 0 and finding.job not in self._jobs:
            return
        job = self._jobs.setdefault(finding.job, _JobTasks())
        new = {task: node for task, node in tasks.items() if node is not None or task not in job.nodes}
        if any(job.nodes.get(task, "") != node for task, node in new.items()):
            self.version += 1
        job.nodes.update(new)
        if (launched and not job.launched) or rank > job.most_rank:
            job.launched, job.most_rank = job.launched or launched, max(rank, job.most_rank)
            self.version += 1
        if 0 <= rank < MAX_TASKS and rank not in job.line_ranks:
            job.line_ranks.add(rank)
            self.version += 1
        while len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)

    def note_steps(self, steps: Iterable[tuple[str | None, AbstractSet[int]]]) -> None:
        """Add the tasks that log steps, for jobs in which `srun` has reported the node of an ended task.

        `steps`: for each writer of steps its job and its tasks.
        """
        for name, tasks in steps if self._jobs else ():
            job = None if name is None or not tasks else self._jobs.get(name)
            new = set() if job is None or not any(job.nodes.values()) else tasks - job.nodes.keys()
            if job is not None and new:
                job.nodes.update(dict.fromkeys(new))
                self.version += 1

    def ranks(self) -> Mapping[str, Mapping[int, str | None]]:
        """Return job -> rank -> host by `srun` (None: unknown), for jobs whose tasks are their ranks."""
        return {name: job.nodes for name, job in self._jobs.items() if job.are_ranks()}


def jobs_of_tasks(nodes: Collection[Node]) -> frozenset[str]:
    """Return the jobs in which the rank of every running process equals its Slurm task number.

    The world size of each must also equal SLURM_NTASKS.
    """
    alike: dict[str, bool] = {}
    for node in nodes:
        for process in node.processes:
            if process.rank is not None and process.job is not None:
                same = process.variables.get("SLURM_PROCID") == str(process.rank)
                size = process.variables.get("SLURM_NTASKS") == str(process.world_size)
                alike[process.job] = alike.get(process.job, True) and same and size
    return frozenset(job for job, same in alike.items() if same)
