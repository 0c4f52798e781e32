"""Selects a Slurm job of this user before the screens open, and makes its plan."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.hosts.plan import Plan
    from gpuwatch.hosts.slurm.reports import QueuedJob

HEAD = ("JOB", "STATE", "USER", "NODES", "ELAPSED", "LEFT", "GPUS", "NAME", "WHERE")


def slurm_plan(job: str) -> Plan:
    """Return the plan of a Slurm job; `me` and "" stand for a job of the user's own (see `chosen_job`).

    Raises:
        HostsError: There is no such job, it has no nodes, or Slurm does not answer.
    """
    from gpuwatch.hosts.slurm.commands import known_job, node_reports
    from gpuwatch.hosts.slurm.plan import job_plan

    found = known_job(chosen_job(only=job == "me") if job in ("me", "") else job)
    return job_plan(found, node_reports(found.nodes))


def chosen_job(*, only: bool) -> str:
    """Return the id of the job that the user chooses on a screen.

    Without a terminal, and with `only` even on one, it is this user's only running job.

    Raises:
        HostsError: No job runs or was chosen, Slurm does not answer, or several jobs run and there is no
            terminal.
    """
    from gpuwatch.hosts.slurm.commands import queued_jobs
    from gpuwatch.hosts.validation.errors import HostsError

    jobs = queued_jobs()
    running = [job for job in jobs if job.state == "RUNNING"]
    has_screen = sys.stdin.isatty() and sys.stderr.isatty()
    if len(running) == 1 and (only or not has_screen):
        return running[0].id
    if has_screen and (running or not only):
        return _on_screen()
    table = job_table(jobs)
    if not running:
        raise HostsError(["--slurm: none of your jobs is running", *table])
    raise HostsError(
        [f"--slurm: several of your jobs are running; name one: --slurm {running[0].id}", *table]
    )


def _on_screen() -> str:
    from gpuwatch.hosts.slurm.commands import queued_jobs
    from gpuwatch.hosts.validation.errors import HostsError
    from gpuwatch.tui.chrome.slurm_jobs_screen import SlurmJobsApp

    chosen = SlurmJobsApp(lambda everyone: queued_jobs(of_all_users=everyone), job_table).run()
    if chosen is None:
        raise HostsError(["--slurm: no job was chosen"])
    return chosen


def job_table(jobs: Sequence[QueuedJob]) -> list[str]:
    """Return one line per job below a heading; empty without jobs."""
    rows = [
        (
            job.id,
            job.state,
            plain(job.user)[:16],
            job.node_count,
            job.elapsed,
            job.left,
            job.gpus.rpartition(":")[2] if ":" in job.gpus else "-",
            plain(job.name)[:30],
            plain(job.where)[:40],
        )
        for job in jobs
    ]
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in ([HEAD, *rows] if rows else [])
    ]
