"""The plan of a Slurm job: its nodes, its GPUs and its log files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from gpuwatch.hosts.errors import HostsError
from gpuwatch.hosts.plan import Allocation, NodeSpec, Plan
from gpuwatch.hosts.slurm.reports import SlurmJob, SlurmNode

_SPECIAL = re.compile(r"[*?\[\]{}]")
TAKEN_OUT = ("DRAIN", "DOWN", "FAIL", "MAINT", "NOT_RESPONDING", "NO_RESPOND")
"""Parts of a node's state that keep new jobs away."""


def job_plan(job: SlurmJob, reports: Mapping[str, SlurmNode]) -> Plan:
    """The plan of a job that has nodes.

    Args:
        job: As Slurm reports it.
        reports: By node; empty if Slurm reports nothing. A node that appears only in the job's text, which
            its user can write, is left out.

    Raises:
        HostsError: it has no nodes: it waits, or never started.
    """
    names = [node for node in job.nodes if node in reports or not reports]
    if not names:
        why = f" ({job.reason})" if job.reason else ""
        raise HostsError([f"job {job.id} has no nodes: it is {job.state or 'unknown'}{why}"])
    nodes = tuple(
        NodeSpec(name=node, slots=job.gpu_counts.get(node), labels=labels(job, node, reports.get(node)))
        for node in names
    )
    return Plan(
        nodes=nodes,
        logs=tuple(dict.fromkeys(as_glob(path) for path in (job.stdout, job.stderr) if is_log(path))),
        source=f"--slurm {job.id}",
        allocation=allocation_of(job),
    )


def allocation_of(job: SlurmJob) -> Allocation:
    """The allocation of a job for the screens and reports."""
    return Allocation(job.id, job.name, job.user, job.state, job.ends, job.restarts)


def labels(job: SlurmJob, node: str, report: SlurmNode | None) -> dict[str, str]:
    """The labels with what Slurm reports about a node of the job."""
    found = {"slurm_job": job.id}
    if job.gpus.get(node):
        found["slurm_gpus"] = job.gpus[node]
    if report is not None:
        found["slurm_state"] = report.state
        if any(part in report.state.upper() for part in TAKEN_OUT):
            found["slurm_reason"] = report.reason or "no reason is stated"
    return found


def output_files(job: SlurmJob) -> list[Path]:
    """The output files of a job; if only its folder is known, those with sbatch's default name."""
    named = [Path(path) for path in dict.fromkeys((job.stdout, job.stderr)) if is_log(path)]
    return named or ([Path(job.folder) / f"slurm-{job.id}.out"] if job.folder else [])


def is_log(path: str) -> bool:
    """True if the path of a job's output is a file that can be followed."""
    return PurePosixPath(path).is_absolute() and path != "/dev/null"


def as_glob(path: str) -> str:
    """A pattern that matches the path: characters that would be read as a placeholder become `?`."""
    return _SPECIAL.sub("?", path)
