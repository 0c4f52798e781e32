"""Selects and shortens the failed jobs that are stored, so that the file can always be read back."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import structs

from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob

MAX_JOBS = 64
MAX_JOB_BYTES = 96 << 10
"""Most bytes of a stored job; `MAX_JOBS` of them are less than the 8 MiB that are read back."""


def kept_jobs(jobs: Iterable[EarlierJob]) -> list[EarlierJob]:
    """Return at most `MAX_JOBS` jobs, none above `MAX_JOB_BYTES`, by time of end.

    The first nodes of the jobs take turns, each with its newest job that is left: a node with many failed
    jobs displaces those of no other.
    """
    by_node: dict[str, list[EarlierJob]] = {}
    for job in sorted(jobs, key=lambda each: -each.ended):
        short = shortened(job)
        if short is not None:
            by_node.setdefault(job.nodes[0] if job.nodes else "", []).append(short)
    turns = [(turn, -job.ended, job) for held in by_node.values() for turn, job in enumerate(held)]
    chosen = sorted(turns, key=lambda each: each[:2])[:MAX_JOBS]
    return sorted((job for _, _, job in chosen), key=lambda each: each.ended)


def shortened(job: EarlierJob) -> EarlierJob | None:
    """Return the job, shortened until it is small enough.

    Its longest commands, logs and users are removed, then its later alerts. None: it is too large even with
    one alert and nothing else.
    """
    for name in ("commands", "logs", "users"):
        while _size(job) > MAX_JOB_BYTES and getattr(job, name):
            texts = getattr(job, name)
            longest = sorted(texts, key=len)[-(len(texts) + 1) // 2 :]
            job = structs.replace(job, **{name: tuple(each for each in texts if each not in longest)})
    while _size(job) > MAX_JOB_BYTES and len(job.alerts) > 1:
        job = structs.replace(job, alerts=job.alerts[: len(job.alerts) // 2])
    return job if _size(job) <= MAX_JOB_BYTES else None


def _size(job: EarlierJob) -> int:
    return len(msgspec.json.encode(job))
