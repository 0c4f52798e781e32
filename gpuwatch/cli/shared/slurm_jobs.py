"""Selects a Slurm job of this user before the screens open, and makes its plan."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.hosts.plan import Plan
    from gpuwatch.hosts.slurm.reports import QueuedJob

HEAD = ("", "JOB", "STATE", "NODES", "ELAPSED", "LEFT", "GPUS", "NAME", "WHERE")


def slurm_plan(job: str) -> Plan:
    """Return the plan of a Slurm job; `me` stands for the user's own job (see `chosen_job`).

    Raises:
        HostsError: There is no such job, it has no nodes, or Slurm does not answer.
    """
    from gpuwatch.hosts.slurm.commands import known_job, node_reports
    from gpuwatch.hosts.slurm.plan import job_plan

    found = known_job(chosen_job() if job == "me" else job)
    return job_plan(found, node_reports(found.nodes))


def chosen_job() -> str:
    """Return the id of this user's only running job; if several run, of the one chosen on the terminal.

    Raises:
        HostsError: No job runs, Slurm does not answer, or several run and there is no terminal.
    """
    from gpuwatch.hosts.errors import HostsError
    from gpuwatch.hosts.slurm.commands import own_jobs

    jobs = own_jobs()
    running = [job for job in jobs if job.state == "RUNNING"]
    if len(running) == 1:
        return running[0].id
    table = job_table(jobs)
    if not running:
        raise HostsError(["--slurm me: none of your jobs runs", *table])
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise HostsError([f"--slurm me: several of your jobs run; name one: --slurm {running[0].id}", *table])
    click.echo("\n".join(table), err=True)
    number: int = click.prompt("Number", type=click.IntRange(1, len(running)), default=1, err=True)
    return running[number - 1].id


def job_table(jobs: list[QueuedJob]) -> list[str]:
    """Return one line per job below a heading; only running jobs are numbered. Empty without jobs."""
    rows = [
        (
            str(number) if job.state == "RUNNING" else "",
            job.id,
            job.state,
            job.node_count,
            job.elapsed,
            job.left,
            job.gpus.rpartition(":")[2] if ":" in job.gpus else "-",
            plain(job.name)[:30],
            plain(job.where)[:40],
        )
        for number, job in enumerate(jobs, 1)
    ]
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in ([HEAD, *rows] if rows else [])
    ]
