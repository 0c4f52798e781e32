"""Assigns a log file to a job: by its writers, else by the other files in its folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TypeVar

from msgspec import structs

from gpuwatch.fleet.jobs.ended_files import LAUNCHER_S, below, ended_job_names, project_of
from gpuwatch.fleet.jobs.same_path import SamePath
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import LogFile

KEPT_FILES = 50_000
SHARED_LISTS = 3
"""Number of file lists of a node after which a file that several jobs write has no single job any more."""
_OF_ONE_RANK = re.compile(r"attempt_\d+|(?:.*[^a-z])?(?:rank|task)[-_.=]?\d+", re.IGNORECASE)


class JobFiles:
    """Assigns log files to jobs and remembers the writers of a file after they have ended."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], str | None] = {}
        """(node, path) -> the job whose ranks write or wrote it; None: ranks of several jobs."""
        self._several: dict[tuple[str, str], tuple[frozenset[str], int]] = {}
        """(node, path) -> the jobs that wrote a file at the same time, and how many file lists show this."""
        self._shared: dict[str, str | None] = {}
        """Identity of a file on a shared file system -> the job whose ranks write or wrote it.

        The identity is equal on every node. None: ranks of several jobs.
        """
        self._listed: dict[str, dict[str, str]] = {}
        """Node -> path -> job, by its last list of files."""
        self.same_path = SamePath()
        self.earlier: Mapping[str, str] = {}
        """Path -> the job whose ranks wrote it in an earlier session of gpuwatch."""
        self._former: dict[tuple[str, str], set[str]] = {}
        """(node, path) -> the names that the file's ended job had before its other files were known."""
        self._renamed: set[str] = set()

    def take_renamed(self) -> set[str]:
        """Return the nodes whose ended jobs were renamed since the last call."""
        renamed, self._renamed = self._renamed | self.same_path.take_renamed(), set()
        return renamed

    def was(self, node: str, path: str, job: str) -> bool:
        """Return True if the ended job of a file was called `job` before."""
        return job in self._former.get((node, path), ())

    def of(self, node: str, path: str) -> str | None:
        """Return the job of a file; None: unknown or ambiguous."""
        if (node, path) in self._writers:
            return self._writers[node, path]
        return self._listed.get(node, {}).get(path)

    def write(self, node: str, written: Mapping[str, AbstractSet[str]]) -> None:
        """Store the jobs whose processes write files of a node now. `written`: path -> jobs."""
        for path, jobs in written.items():
            _keep(self._writers, (node, path), self._only(node, path, jobs))

    def _only(self, node: str, path: str, jobs: AbstractSet[str]) -> str | None:
        """Return the only job that writes a file; None: several do, or did in the last `SHARED_LISTS` lists.

        The last lines of a job may be read after its end, when only the other job still writes.
        """
        before, lists = self._several.get((node, path), (frozenset(), 0))
        shared = lists >= SHARED_LISTS and jobs <= before
        return next(iter(jobs)) if len(jobs) == 1 and not shared else None

    def _note_jobs(self, node: str, path: str, jobs: frozenset[str]) -> None:
        """Count how often a file list shows several jobs as writers of a file.

        One list is not enough: for a moment one job may have two names.
        """
        before, lists = self._several.get((node, path), (frozenset(), 0))
        if len(jobs) > 1:
            _keep(self._several, (node, path), (jobs | before, lists + 1))
        elif not jobs <= before or 0 < lists < SHARED_LISTS:
            self._several.pop((node, path), None)

    def take(
        self,
        node: str,
        files: Sequence[LogFile],
        owners: Mapping[int, AbstractSet[str]],
        silent_here: AbstractSet[str],
        silent: AbstractSet[str],
    ) -> list[LogFile]:
        """Return the log files of a node with their jobs filled in.

        Args:
            node: The node's name.
            files: The files as its agent lists them.
            owners: Pid of a rank there, or of the process that started it -> its jobs.
            silent_here: Jobs on the node without any known file.
            silent: All jobs without any known file.
        """
        ended = ended_job_names([file for file in files if (node, file.path) not in self._writers], home)
        ended = self.same_path.names(node, files, ended)
        ended = self._as_earlier(ended)
        ended |= self._of_watched_jobs(node, [file for file in files if file.path in ended], files, owners)
        self._note_other_names(node, ended)
        found = dict(ended)
        unclear = []
        for file in files:
            if file.path in found:
                continue
            known, job = self._by_writer(node, file, owners)
            if job is not None:
                found[file.path] = job
            elif not known and file.source != "kernel":
                unclear.append(file)
        living = {path: job for path, job in found.items() if path not in ended}
        reported = set(living.values())
        homes = _Homes((home(path), job) for path, job in living.items())
        for file in unclear:
            near = homes.near(home(file.path))
            # a job that is not known to write anything may be the one that writes this
            others = silent_here if file.identity is None else silent
            if len(near) == 1 and not others - reported:
                found[file.path] = next(iter(near))
        self._listed[node] = found
        return [
            file if file.job == found.get(file.path) else structs.replace(file, job=found.get(file.path))
            for file in files
        ]

    def _as_earlier(self, ended: Mapping[str, str]) -> dict[str, str]:
        """Return path -> job of ended files, with one name for all files of one job of an earlier session.

        `slurm-77_0.out` and `slurm-77_1.out` may be two jobs of an array, or two tasks of job 77. A
        rendezvous that was the job's name in a session is not used: a job that runs now may have the same
        one.
        """
        names: dict[str, set[str]] = {}
        for path, name in ended.items():
            if path in self.earlier:
                names.setdefault(self.earlier[path], set()).add(name)
        called: dict[str, str] = {}
        for job, several in names.items():
            parts = all(name.startswith(f"{job}_") for name in several)
            called.update(dict.fromkeys(several, job if parts else min(several)) if len(several) > 1 else {})
        return {path: called.get(name, name) for path, name in ended.items()}

    def _of_watched_jobs(
        self,
        node: str,
        ended: Sequence[LogFile],
        files: Sequence[LogFile],
        owners: Mapping[int, AbstractSet[str]],
    ) -> dict[str, str]:
        """Return path -> job for ended files of jobs whose other files had been followed until they ended.

        A file that a rank opens late is found only after its end, without a writer. It belongs to the only
        job that wrote into the same project until then and no longer runs.
        """
        running = {job for jobs in owners.values() for job in jobs} if ended else set()
        written: dict[str, list[tuple[str, float]]] = {}
        for file in files if ended else ():
            job = self._writers.get((node, file.path))
            if job is not None and job not in running and file.grown_at is not None:
                written.setdefault(project_of(home(file.path)), []).append((job, file.grown_at))
        found = {}
        for file in ended:
            last = file.last_at or 0.0
            others = written.get(project_of(home(file.path)), ())
            near = {job for job, at in others if abs(at - last) <= LAUNCHER_S}
            if len(near) == 1:
                found[file.path] = near.pop()
        return found

    def _note_other_names(self, node: str, ended: Mapping[str, str]) -> None:
        """Store the names that the jobs of ended files had before."""
        listed = self._listed.get(node, {})
        for path, name in ended.items():
            before = listed.get(path, name)
            if before != name:
                self._former.setdefault((node, path), set()).add(before)
                self._renamed.add(node)
        while len(self._former) > KEPT_FILES:
            del self._former[next(iter(self._former))]

    def _by_writer(
        self, node: str, file: LogFile, owners: Mapping[int, AbstractSet[str]]
    ) -> tuple[bool, str | None]:
        """Return (whether anything shows who writes or wrote a file, its job if exactly one does)."""
        jobs = {job for pid in file.pids for job in owners.get(pid, ())}
        if jobs:
            self._note_jobs(node, file.path, frozenset(jobs))
            job = self._only(node, file.path, jobs)
            _keep(self._writers, (node, file.path), job)
            if file.identity is not None:
                _keep(self._shared, file.identity, job)
            return True, job
        before = self._writers.get((node, file.path))
        if file.job is not None and not (before or "").startswith(f"{file.job}@"):
            return True, file.job
        if (node, file.path) in self._writers:
            return True, before
        known = file.identity is not None and file.identity in self._shared
        return known, self._shared[file.identity] if known and file.identity is not None else None


Kept = TypeVar("Kept")
Value = TypeVar("Value")


def _keep(where: dict[Kept, Value], key: Kept, value: Value) -> None:
    where[key] = value
    if len(where) > KEPT_FILES:
        del where[next(iter(where))]


class _Homes:
    """Looks up which jobs write into a folder or below it."""

    def __init__(self, homes: Iterable[tuple[str, str]]) -> None:
        jobs: dict[str, set[str]] = {}
        for place, job in homes:
            jobs.setdefault(place, set()).add(job)
        self._jobs = jobs
        self._places = sorted(jobs)
        self._near: dict[str, set[str]] = {}

    def near(self, folder: str) -> set[str]:
        """Return the jobs that write into this folder or below it."""
        found = self._near.get(folder)
        if found is None:
            inside = (self._jobs[place] for place in self._places[below(folder, self._places)])
            found = self._near[folder] = self._jobs.get(folder, set()).union(*inside)
        return found


@lru_cache(4096)
def home(path: str) -> str:
    """Return the folder of a job's logs: the file's folder without the parts for one rank or attempt.

    `/runs/a/attempt_0/3/stderr.log` (torchrun) and `/runs/a/rank_3/out.log` both give `/runs/a`.
    """
    folders = path.split("/")[:-1]
    while folders and (
        _OF_ONE_RANK.fullmatch(folders[-1])
        or (folders[-1].isdecimal() and len(folders) > 1 and folders[-2].startswith("attempt_"))
    ):
        folders.pop()
    return "/".join(folders)


def is_of_others(file: LogFile, members: Collection[int | None]) -> bool:
    """Return True if only processes that are no part of a listed job have a file of one node open.

    Such as the launcher of a job whose ranks are not listed yet, or that never starts one.
    """
    return file.identity is None and bool(file.pids) and not set(file.pids).intersection(members)


def outputs(nodes: Iterable[Node]) -> dict[tuple[str, int], frozenset[str]]:
    """Return (node, pid) -> the log files that the process has open for writing."""
    found: dict[tuple[str, int], set[str]] = {}
    for node in nodes:
        for file in node.logs:
            for pid in file.pids:
                found.setdefault((node.name, pid), set()).add(file.path)
    return {process: frozenset(paths) for process, paths in found.items()}
