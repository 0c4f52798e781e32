"""Limits of what one node may report: GPUs, processes, rank changes, files, and jobs with progress."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.wire import Finding, Hello, Process, Progress

MAX_GPUS_PER_NODE = 1024
"""Maximum number of GPUs of a node, including those that it listed earlier."""
MAX_PROCESSES_PER_NODE = 1024
"""Maximum number of processes in one list of a node: agents list no more."""
RANKS_PER_S, RANKS_BURST = 100.0, 8.0 * MAX_PROCESSES_PER_NODE
"""Limit of ranks per node in lists whose ranks changed.

Eight ranks that restart every second stay far below.
"""
FILES_PER_S, FILES_BURST = 2.0, 1024.0
"""Limit of new files per node: an agent follows at most 512, and all of them may be recreated."""
JOBS_PER_S, JOBS_BURST = 1.0, 512.0
"""Limit of new jobs per node: at most one in each followed file."""
HOSTS_PER_S, HOSTS_BURST = 10.0, 2_048.0
"""Limit of new host names in the lines of a node: a launcher's log may name all nodes of a job."""
KEPT_NAMES = 4_096
"""Number of names remembered per kind and node; a dropped name counts as new when it appears again."""

RankKey: TypeAlias = tuple[int, int, str | None, str | None]
"""(pid, rank, job, rendezvous) of a process."""


class TooManyError(Exception):
    """Raised if a node reports more than any real machine has."""


class NodeLimits:
    """Counts what each node reports over all its connections, since an excess costs the whole fleet time."""

    def __init__(self) -> None:
        self._ranks: dict[str, set[RankKey]] = {}
        self._rank_changes: dict[str, TokenBucket] = {}
        self._files: dict[str, _NewNames] = {}
        self._jobs: dict[str, _NewNames] = {}
        self._hosts: dict[str, _NewNames] = {}

    def check_gpus(self, node: Node, hello: Hello) -> None:
        """Check that a node lists, now and earlier together, at most MAX_GPUS_PER_NODE GPUs.

        Raises:
            TooManyError: It lists more.
        """
        listed = len(node.gpus.keys() | {info.uuid for info in hello.gpus})
        if listed > MAX_GPUS_PER_NODE:
            raise TooManyError(f"{listed} GPUs on one node")

    def take_processes(self, node: str, processes: Sequence[Process], at: float) -> None:
        """Count a node's list of processes, received at `at` (monotonic seconds), and the ranks it changes.

        A list whose ranks changed causes jobs, places and files to be named again.

        Raises:
            TooManyError: The list is longer than any agent's, or ranks change faster than any job's.
        """
        if len(processes) > MAX_PROCESSES_PER_NODE:
            raise TooManyError(f"{len(processes)} processes in one list, of at most {MAX_PROCESSES_PER_NODE}")
        ranks = {(each.pid, each.rank, each.job, each.master) for each in processes if each.rank is not None}
        before, self._ranks[node] = self._ranks.get(node, set()), ranks
        allowance = self._rank_changes.setdefault(node, TokenBucket(RANKS_PER_S, RANKS_BURST))
        if ranks != before and not allowance.spend(len(ranks | before), at):
            raise TooManyError(f"lists of ranks change by more than {RANKS_PER_S:g} ranks per second")

    def take_progress(self, node: str, progress: Progress, at: float) -> None:
        """Count the new files and jobs in progress received at `at` (monotonic seconds).

        Each job is judged and shown separately. Ranks are not counted here: a launcher's log may name all
        ranks of a large job.

        Raises:
            TooManyError: The node names more files or jobs than any agent follows.
        """
        files = self._files.setdefault(node, _NewNames("files", FILES_PER_S, FILES_BURST))
        files.register(progress.file, at)
        self._take_job(node, progress.job, at)

    def take_finding(self, node: str, finding: Finding, at: float) -> None:
        """Count the new jobs and hosts in a finding: each of them leads to a separate alert or incident.

        Raises:
            TooManyError: The node names more jobs than any agent follows, or more hosts than a job has.
        """
        self._take_job(node, finding.job, at)
        if finding.host is not None:
            hosts = self._hosts.setdefault(node, _NewNames("hosts", HOSTS_PER_S, HOSTS_BURST))
            hosts.register(finding.host, at)

    def _take_job(self, node: str, job: str | None, at: float) -> None:
        if job is not None:
            jobs = self._jobs.setdefault(node, _NewNames("jobs", JOBS_PER_S, JOBS_BURST))
            jobs.register(job, at)


class _NewNames:
    """The names of one kind that a node has used, and the number of new ones that it may still use."""

    def __init__(self, kind: str, per_s: float, burst: float) -> None:
        self._excess = f"more than {burst:g} {kind}, and more than {per_s:g} new ones per second"
        self._allowance = TokenBucket(per_s, burst)
        self._names: OrderedDict[str, None] = OrderedDict()

    def register(self, name: str, at: float) -> None:
        if name not in self._names and not self._allowance.spend(1.0, at):
            raise TooManyError(self._excess)
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > KEPT_NAMES:
            self._names.popitem(last=False)
