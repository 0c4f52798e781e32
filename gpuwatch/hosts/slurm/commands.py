"""Slurm's commands on this machine, within a time and a size."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import TypeAlias

from gpuwatch.hosts.errors import HostsError
from gpuwatch.hosts.slurm.reports import (
    ACCOUNT_FIELDS,
    JOB_ID,
    QUEUE_FORMAT,
    QueuedJob,
    SlurmJob,
    SlurmNode,
    read_account,
    read_jobs,
    read_nodes,
    read_queue,
)

ANSWER_S = 20.0
MAX_BYTES = 8 << 20
Run: TypeAlias = Callable[[Sequence[str]], str]
"""The output of a command; raises `HostsError` where it fails."""


def run_slurm(argv: Sequence[str]) -> str:
    """The output of one of Slurm's commands.

    Raises:
        HostsError: it is not installed, fails, or does not answer in time.
    """
    if shutil.which(argv[0]) is None:
        raise HostsError([f"{argv[0]} is not installed here: run gpuwatch where Slurm's commands work"])
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=ANSWER_S, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HostsError([f"{argv[0]} did not answer within {ANSWER_S:g} s"]) from None
    except OSError as error:
        raise HostsError([f"{argv[0]}: {error.strerror}"]) from None
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HostsError([f"{argv[0]}: {lines[-1] if lines else f'exit status {done.returncode}'}"])
    return done.stdout[:MAX_BYTES].decode("utf-8", "replace")


def known_job(job: str, run: Run = run_slurm) -> SlurmJob:
    """A job that Slurm's controller still knows, else one of its accounting.

    Raises:
        HostsError: `job` is no job id, or neither knows it.
    """
    if not JOB_ID.fullmatch(job):
        raise HostsError([f"--slurm {job}: not a job id such as 41, 41_3 or me"])
    try:
        jobs = read_jobs(run(["scontrol", "show", "job", "-d", job]))
    except HostsError as error:
        return _accounted(job, error, run)
    if not jobs:
        raise HostsError([f"--slurm {job}: scontrol reports no such job"])
    running = [one for one in jobs if one.state == "RUNNING"]
    return (running or jobs)[0]


def _accounted(job: str, refused: HostsError, run: Run) -> SlurmJob:
    """The job by `sacct`, which a cluster without accounting refuses."""
    try:
        fields = ",".join(ACCOUNT_FIELDS)
        found = read_account(run(["sacct", "-D", "-X", "-P", "-n", "-j", job, "-o", fields]))
    except HostsError as error:
        raise HostsError([*refused.problems, *error.problems]) from None
    if found is None:
        raise HostsError([*refused.problems, f"sacct: no job {job}"])
    return found


def own_jobs(run: Run = run_slurm) -> list[QueuedJob]:
    """The jobs of this user that run, then those that wait.

    Raises:
        HostsError: squeue fails.
    """
    jobs = read_queue(run(["squeue", "--me", "-h", "-o", QUEUE_FORMAT]))
    return sorted(jobs, key=lambda job: job.state != "RUNNING")


def node_reports(nodes: Sequence[str], run: Run = run_slurm) -> dict[str, SlurmNode]:
    """The states of nodes; none where Slurm does not report them."""
    try:
        return read_nodes(run(["scontrol", "show", "node", "-o", ",".join(nodes)]))
    except HostsError:
        return {}
