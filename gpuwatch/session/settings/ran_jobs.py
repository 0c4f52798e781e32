"""Records the jobs of which this session has seen ranks, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gpuwatch.diagnose.past_jobs.earlier_sessions import without_numbers
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.wire.processes import Process

MAX_LOGS = 64
"""Most paths of log files per job."""
MAX_COMMANDS = 8
"""Most commands per job: ranks differ in numbers only."""
MAX_USERS = 8
"""Most users per job."""
MAX_NODE_JOBS = 64
"""Most jobs per node on which they were first seen: it can report new job names with every frame."""


@dataclass
class RanJob:
    """A job of which this session has seen ranks."""

    first_node: str
    nodes: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    logs: set[str] = field(default_factory=set)
    """Log files of its ranks: the first `MAX_LOGS` seen."""
    commands: set[str] = field(default_factory=set)
    """Their commands, without numbers: the first `MAX_COMMANDS` seen."""

    def add(self, node: str, rank: Process) -> None:
        """Add the node, user, logs and command of a rank; each of these lists has a maximum length."""
        self.nodes.add(node)
        if rank.user and len(self.users) < MAX_USERS:
            self.users.add(rank.user)
        for log in rank.logs[: MAX_LOGS - len(self.logs)]:
            self.logs.add(log)
        if rank.command and len(self.commands) < MAX_COMMANDS:
            self.commands.add(without_numbers(rank.command))


class RanJobs:
    """The jobs that ran in this session, in the order in which their ranks were last seen."""

    def __init__(self) -> None:
        self._jobs: dict[str, RanJob] = {}
        self._counts: Counter[str] = Counter()
        """Jobs per first node."""
        self.running: set[str] = set()
        """The jobs with a rank at the last update."""

    def __contains__(self, job: object) -> bool:
        return job in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, job: str) -> RanJob:
        return self._jobs[job]

    def update(self, fleet: Fleet) -> None:
        """Add the ranks that run now, except those of a demo; forget ended jobs of a node with too many."""
        self.running.clear()
        for node in fleet.nodes.values():
            for process in node.processes if node.spec.link != "demo" else ():
                if process.rank is not None and process.job is not None and process.state != "Z":
                    self._seen(process.job, node.name).add(node.name, process)
        if any(count > MAX_NODE_JOBS for count in self._counts.values()):
            self._forget()

    def _seen(self, job: str, node: str) -> RanJob:
        ran = self._jobs.get(job)
        if ran is None:
            ran = self._jobs[job] = RanJob(node)
            self._counts[node] += 1
        elif job not in self.running:
            self._jobs[job] = self._jobs.pop(job)  # the last seen is the last in the dict
        self.running.add(job)
        return ran

    def _forget(self) -> None:
        for job, ran in list(self._jobs.items()):
            if self._counts[ran.first_node] > MAX_NODE_JOBS and job not in self.running:
                del self._jobs[job]
                self._counts[ran.first_node] -= 1
