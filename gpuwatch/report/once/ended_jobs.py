"""Jobs that ended before gpuwatch connected, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S, EndedJob
from gpuwatch.diagnose.past_jobs.text import outcome_text
from gpuwatch.number_text import listed, plural
from gpuwatch.plain import plain
from gpuwatch.report.incidents.json_output import Facts
from gpuwatch.report.output.checkpoints import checkpoint_facts

MAX_NAMED_JOBS = 4
"""Maximum number of ended jobs that are described individually."""


def ended_sentence(jobs: Sequence[EndedJob], incidents: Iterable[Incident], now: float) -> str | None:
    """Return `1 job ended in the last 6 h: run7 (2 ranks on gpu-001, last line 02:58:11): stopped ...`.

    At most `MAX_NAMED_JOBS` are named. None if no job ended. `now`: unix seconds.
    """
    if not jobs:
        return None
    of_job = {incident.job: incident for incident in incidents}
    named = listed([outcome_text(job, of_job.get(job.name), now) for job in jobs], MAX_NAMED_JOBS, "; ")
    return plain(f"{plural(len(jobs), 'job')} ended in the last {ENDED_S / 3600:.0f} h: {named}")


def ended_facts(
    jobs: Iterable[EndedJob],
    incidents: Iterable[Incident],
    checkpoints: Mapping[str | None, Checkpoint],
) -> list[Facts]:
    """Return every ended job with its outcome as data; the keys are documented in `docs/json.md`."""
    of_job = {incident.job: incident for incident in incidents}
    found: list[Facts] = []
    for job in jobs:
        incident = of_job.get(job.name)
        found.append(
            {
                "job": plain(job.name),
                "nodes": list(job.nodes),
                "ranks": list(job.ranks),
                "last": round(job.last, 3),
                "state": "failed" if incident is not None else job.end.state,
                "text": plain(job.end.text),
                "step": job.end.step,
                "total_steps": job.end.total_steps,
                "checkpoint": checkpoint_facts(checkpoints.get(job.name)),
                "searched": job.searched,
                "superseded": job.superseded,
                "class": None if incident is None else incident.code,
                "rank": None if incident is None else incident.rank,
                "files": [{"node": node, "file": plain(path)} for node, path in job.files],
            }
        )
    return found
