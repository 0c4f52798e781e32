"""Reads jobs and nodes with Slurm's commands (scontrol, squeue, sacct) on this machine."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from gpuwatch.hosts.external_command import RunCommand, run_external
from gpuwatch.hosts.slurm.plan import allocation_of
from gpuwatch.hosts.slurm.reports import (
    ACCOUNT_FIELDS,
    QUEUE_FIELDS,
    UNKNOWN,
    QueuedJob,
    SlurmJob,
    SlurmNode,
    read_account,
    read_jobs,
    read_nodes,
    read_queue,
    submitted_output,
)
from gpuwatch.hosts.slurm.scheduler_facts import NodeStanding, SchedulerFacts
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.plain import plain
from gpuwatch.shell_command import value


def known_job(job: str, run: RunCommand = run_external) -> SlurmJob:
    """Return a job as Slurm's controller reports it, or as sacct reports it if scontrol fails.

    Raises:
        HostsError: `job` is no job id, or Slurm does not know it.
    """
    if value("job", job) is None:
        raise HostsError([f"--slurm {job}: not a job id such as 41, 41_3 or me"])
    try:
        found = _asked(job, run)
    except HostsError as error:
        return _accounted(job, error, run)
    if found is None:
        raise HostsError([f"--slurm {job}: scontrol reports no such job"])
    return found


def _asked(job: str, run: RunCommand) -> SlurmJob | None:
    """Return the job with this id; for a job array, its running task, else its first. None if there is none.

    A job's name can contain what looks like another job's record. Only the first record of an answer is
    certainly Slurm's, so a later one is queried again by its own id.
    """
    jobs = _shown(job, run)
    own = [one for one in jobs if job in one.names]
    if not own:
        return None
    chosen = next((one for one in own if one.state == "RUNNING"), own[0])
    if chosen is jobs[0]:
        return chosen
    again = _shown(chosen.id, run)[:1]
    if again and again[0].id == chosen.id and job in again[0].names:
        return again[0]
    return jobs[0] if job in jobs[0].names else None


def _shown(job: str, run: RunCommand) -> list[SlurmJob]:
    return read_jobs(run(["scontrol", "show", "job", "-d", job])) if value("job", job) is not None else []


def _accounted(job: str, refused: HostsError, run: RunCommand) -> SlurmJob:
    """Return the job as `sacct` reports it; `refused` is the error of scontrol, which a failure reports, too.

    Raises:
        HostsError: sacct fails, as on a cluster without accounting, or does not know the job.
    """
    try:
        fields, separator = ",".join(ACCOUNT_FIELDS), _separator()
        argv = ["sacct", "-D", "-X", "-P", "-n", f"--delimiter={separator}", "-j", job, "-o", fields]
        found = read_account(run(argv), job, separator)
    except HostsError as error:
        raise HostsError([*refused.problems, *error.problems]) from None
    if found is None:
        raise HostsError([*refused.problems, f"sacct: no job {job}"])
    return replace(found, stdout=_accounted_output(found, run))


def _accounted_output(job: SlurmJob, run: RunCommand) -> str:
    """Return the output file that accounting knows: StdOut of Slurm 24.05 and later, else by the submit line.

    "" if neither names one, as where the script itself has `#SBATCH --output`.
    """
    for field, read in (("StdOut", str.strip), ("SubmitLine", submitted_output)):
        try:
            lines = run(["sacct", "-D", "-X", "-P", "-n", "-j", job.id, "-o", field]).splitlines()
        except HostsError:
            continue  # this Slurm has no such field
        path = read(plain(lines[-1])) if lines else ""
        if path not in UNKNOWN:
            return str(PurePosixPath(job.folder) / path)
    return ""


def _separator() -> str:
    """Return a random text to separate the fields of a line; no job's name can be made to contain it."""
    return f"|{secrets.token_hex(8)}|"


def queued_jobs(run: RunCommand = run_external, *, of_all_users: bool = False) -> list[QueuedJob]:
    """Return this user's jobs in the queue, or those of all users, the running ones first.

    Raises:
        HostsError: squeue fails.
    """
    whose, separator = [] if of_all_users else ["--me"], _separator()
    jobs = read_queue(run(["squeue", *whose, "-h", "-o", separator.join(QUEUE_FIELDS)]), separator)
    return sorted(jobs, key=lambda job: job.state != "RUNNING")


def scheduler_facts(
    nodes: Sequence[str], jobs: Sequence[str], run: RunCommand = run_external
) -> SchedulerFacts:
    """Return Slurm's current report of nodes, by name, and jobs, by id.

    What it does not report is left out.
    """
    reports = node_reports(nodes, run) or node_reports((), run)  # one unknown name makes the whole query fail
    found = {}
    for name in nodes:
        report = reports.get(name)
        if report is not None:
            found[name] = NodeStanding("Slurm", report.state, report.reason)
    allocations = {}
    for ident in jobs:
        try:
            job = _asked(ident, run)
        except HostsError:
            continue
        if job is not None:
            allocations[ident] = allocation_of(job)
    return SchedulerFacts(found, allocations)


def node_reports(nodes: Sequence[str], run: RunCommand = run_external) -> dict[str, SlurmNode]:
    """Return name -> state of these nodes, or of all nodes if `nodes` is empty; empty if scontrol fails."""
    try:
        names = [",".join(nodes)] if nodes else []
        return read_nodes(run(["scontrol", "show", "node", "-o", *names]))
    except HostsError:
        return {}
