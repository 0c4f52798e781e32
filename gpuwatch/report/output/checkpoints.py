"""Checkpoints as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.plain import plain

Facts: TypeAlias = dict[str, Any]


def checkpoint_facts(last: Checkpoint | None) -> Facts | None:
    """Return a checkpoint as data, all keys present; None if no line reports one."""
    if last is None:
        return None
    return {
        "step": last.step,
        "at": None if last.at is None else round(last.at, 3),
        "path": None if last.path is None else plain(last.path),
        "complete": last.complete,
        "files": last.files,
        "bytes": last.size,
        "unfinished_step": last.unfinished_step,
        "read_pct": None if last.read_pct is None else round(last.read_pct, 1),
        "last_step": last.last_step,
        "steps_lost": last.steps_lost,
        "seconds_lost": None if last.seconds_lost is None else round(last.seconds_lost),
    }


def job_checkpoint_facts(of_job: Mapping[str | None, Checkpoint]) -> list[Facts]:
    """Return the last checkpoint of each job as data."""
    found = []
    for job, last in of_job.items():
        facts = checkpoint_facts(last)
        if facts is not None:
            found.append({"job": None if job is None else plain(job), **facts})
    return found
