"""Which jobs' Slurm tasks are their ranks, by what the rules found in the jobs' logs.

`srun -l` puts the number of the task before each line, and `srun` names the node of a task that failed. The
tasks are the ranks unless each of them starts several, as `srun torchrun` does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuwatch.wire import Finding

TASK = "task"
MAX_TASKS = 100_000
MAX_JOBS = 256
_OF_LAUNCHERS = "elastic.", "launch."
"""Classes of lines that only a launcher of several ranks prints."""


def task_numbers(text: str) -> list[int]:
    """The tasks in `2`, `4-7` or `0,2-3`; empty where a number is too large."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not last) and int(last or first) < MAX_TASKS:
            found += range(int(first), int(last or first) + 1)
    return found if len(found) <= MAX_TASKS else []


@dataclass
class _JobTasks:
    """What the findings of one job state."""

    nodes: dict[int, str | None] = field(default_factory=dict)
    """Task -> the host that `srun` names for it; None: only a label names the task."""
    most_rank: int = -1
    """The highest rank that a line names."""
    launched: bool = False
    """Whether a launcher of several ranks logs here."""

    def are_ranks(self) -> bool:
        """Whether they count from 0 without a gap, and no line distinguishes them from the ranks."""
        count = len(self.nodes)
        whole = count > 1 and max(self.nodes) == count - 1
        return whole and not self.launched and self.most_rank < count


class SlurmTasks:
    """Collects the tasks that findings name, job by job; `version` moves with each new one."""

    def __init__(self) -> None:
        self.version = 0
        self._jobs: OrderedDict[str, _JobTasks] = OrderedDict()

    def note(self, finding: Finding) -> None:
        """Take in one finding; the processes of a running job are better evidence."""
        if finding.job is None or not finding.backlog:
            return
        tasks: dict[int, str | None] = {}
        if "node" in finding.fields:
            named = task_numbers(str(finding.fields.get("tasks", "")))
            tasks.update(dict.fromkeys(named, str(finding.fields["node"])))
        if finding.index is not None and finding.index_of == TASK:
            tasks.setdefault(finding.index, None)
        launched = finding.rule.startswith(_OF_LAUNCHERS) or "local_rank" in finding.fields
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
        while len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)

    def ranks(self) -> Mapping[str, Mapping[int, str | None]]:
        """Job -> rank -> the host that is named for it, of the jobs whose tasks are the ranks."""
        return {name: job.nodes for name, job in self._jobs.items() if job.are_ranks()}
