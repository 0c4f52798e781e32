"""Makes the plan of a Slurm job: its nodes, their GPUs, and its log files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path, PurePosixPath

from gpuwatch.hosts.plan import Allocation, NodeSpec, Plan
from gpuwatch.hosts.slurm.reports import SlurmJob, SlurmNode
from gpuwatch.hosts.validation.errors import HostsError

_SPECIAL = re.compile(r"[*?\[\]{}]")
_PATTERN = re.compile(r"%(\d{0,2})([A-Za-z%])")
_STARS = re.compile(r"\*{2,}")
MAX_PATTERNS, MAX_FILES = 3, 1000
TAKEN_OUT = ("DRAIN", "DOWN", "FAIL", "MAINT", "NOT_RESPONDING", "NO_RESPOND")
"""Parts of a node's state that keep new jobs away."""


def job_plan(job: SlurmJob, reports: Mapping[str, SlurmNode]) -> Plan:
    """Return the plan of a job.

    Args:
        job: As Slurm reports it.
        reports: By node; empty if Slurm reports nothing. A node that appears only in the job's text, which
            its user can write, is left out.

    Raises:
        HostsError: The job has no nodes, because it waits or never started; or none that is in `reports`.
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
        logs=tuple(dict.fromkeys(as_glob(path, job.id) for path in (job.stdout, job.stderr) if is_log(path))),
        source=f"--slurm {job.id}",
        allocation=allocation_of(job),
    )


def allocation_of(job: SlurmJob) -> Allocation:
    """Return a job as an `Allocation`, the form that the screens and reports use."""
    return Allocation(job.id, job.name, job.user, job.state, job.ends, job.restarts)


def labels(job: SlurmJob, node: str, report: SlurmNode | None) -> dict[str, str]:
    """Return the labels `slurm_*` of a job's node; `report` is Slurm's report of it, None if unknown."""
    found = {"slurm_job": job.id}
    if job.gpus.get(node):
        found["slurm_gpus"] = job.gpus[node]
    if report is not None:
        found["slurm_state"] = report.state
        if any(part in report.state.upper() for part in TAKEN_OUT):
            found["slurm_reason"] = report.reason or "no reason is stated"
    return found


def output_files(job: SlurmJob) -> list[Path]:
    """Return the job's output files, whether they exist or not.

    If Slurm does not name them, sbatch's default in the working directory; empty if that is unknown, too.
    """
    stated = [path for path in dict.fromkeys((job.stdout, job.stderr)) if is_log(path)]
    named = [found for path in stated for found in _files(path, job.id)]
    return named or ([Path(job.folder) / f"slurm-{job.id}.out"] if job.folder else [])


def is_log(path: str) -> bool:
    """Return True if the path is absolute and not /dev/null."""
    return PurePosixPath(path).is_absolute() and path != "/dev/null"


def as_glob(path: str, job: str) -> str:
    """Return a glob for an output file as Slurm states it.

    scontrol of Slurm 22.05 fills in `%j`, `%x` and `%u`, and leaves `%t`, `%N`, `%n`, `%s` and forms with a
    width such as `%5j` as they are. Any other character of `*?[]{}` becomes `?`.

    Args:
        path: The path, with patterns of sbatch(1).
        job: The job's id.
    """
    parts, end = [], 0
    for found in _PATTERN.finditer(path):
        parts += [_SPECIAL.sub("?", path[end : found.start()]), _filled(found[1], found[2], job)]
        end = found.end()
    return _STARS.sub("*", "".join([*parts, _SPECIAL.sub("?", path[end:])]))


def _filled(width: str, letter: str, job: str) -> str:
    if letter == "%":
        return "%"
    return job.zfill(int(width or 0)) if letter == "j" and job.isdecimal() else "*"


def _files(path: str, job: str) -> list[Path]:
    """Return the files that a path with patterns of sbatch(1) stands for, at most `MAX_FILES`.

    With no pattern but `%j` and `%%`, the filled path, whether it exists or not; the path itself if no file
    exists, or with more than `MAX_PATTERNS`: the job's user has chosen it, and many patterns would search the
    whole file system.
    """
    count = len(_PATTERN.findall(path))
    filled = _PATTERN.sub(lambda found: _filled(found[1], found[2], job), path)
    if filled.count("*") == path.count("*"):
        return [Path(filled)]
    if count > MAX_PATTERNS:
        return [Path(path)]
    found = Path("/").glob(as_glob(path, job).lstrip("/"))
    return sorted(islice(found, MAX_FILES)) or [Path(path)]
