"""Names and outcomes of ended jobs in reports and on the screens."""

from __future__ import annotations

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import clock
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import plural


def outcome_text(job: EndedJob, incident: Incident | None, now: float) -> str:
    """Return `run7 (2 ranks on gpu-001, last line 02:58:11): finished at step 1,000 of 1,000`.

    Args:
        job: The ended job.
        incident: What failed first in it, if anything did; its headline then stands for the outcome.
        now: Unix seconds; decides only whether a date is shown.
    """
    ranks = f"{plural(len(job.ranks), 'rank')} on " if job.ranks else ""
    place = f"{ranks}{fold(job.nodes)}, last line {clock(job.last, now)}"
    outcome = job.end.text if incident is None else incident.headline
    outcome = outcome if job.searched else "its logs are not searched yet"
    later = "; another job was started there since" if job.superseded else ""
    return f"{job.name} ({place}): {outcome}{later}"
