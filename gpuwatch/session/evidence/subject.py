"""The subject of a bundle: an incident or a job, with its nodes and ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet


class UnknownSubjectError(LookupError):
    """Raised for an unknown incident or job; the message lists the known ones."""


class EvidenceSubject(Struct, frozen=True):
    """An incident, or a job with all of its incidents."""

    job: str | None
    incidents: tuple[Incident, ...]
    nodes: tuple[str, ...]
    """Nodes of the job's ranks and of the alerts, in plan order."""
    at: float
    """The time that the bundle is about, in unix seconds on our clock."""

    @property
    def incident(self) -> Incident | None:
        """The first incident of the subject, or None."""
        return self.incidents[0] if self.incidents else None

    @property
    def name(self) -> str:
        """Return a name for the user: `incident 1 of job 4711`, `job 4711`.

        `nodes` without a job and an incident.
        """
        of = f"job {self.job}" if self.job is not None else ""
        if len(self.incidents) != 1:
            return of or "nodes"
        numbered = f"incident {self.incidents[0].number}"
        return f"{numbered} of {of}" if of else numbered


def chosen_incident(incidents: Sequence[Incident], asked: str | None) -> Incident | None:
    """Return the incident with a number or id.

    If `asked` is None, return the newest active incident, else the newest; None if there are none.

    Args:
        incidents: The incidents, newest first.
        asked: The number or id that the user gave.

    Raises:
        UnknownSubjectError: there is no incident with this number or id.
    """
    if asked is None:
        return next((each for each in incidents if not each.over), incidents[0] if incidents else None)
    for each in incidents:
        if asked in (str(each.number), each.id):
            return each
    known = ", ".join(str(number) for number in sorted(each.number for each in incidents))
    raise UnknownSubjectError(f"no incident {asked}: {f'there is {known}' if known else 'there is none'}")


def of_incident(incident: Incident, fleet: Fleet) -> EvidenceSubject:
    """Return the subject for one incident; its time is that of the incident's first alert."""
    nodes = _job_nodes(fleet, incident.job) if incident.job is not None else set()
    return EvidenceSubject(
        incident.job, (incident,), _in_order(fleet, nodes | _named((incident,))), incident.first
    )


def of_job(job: str, incidents: Iterable[Incident], fleet: Fleet, wall: float) -> EvidenceSubject:
    """Return the subject for a job.

    `wall`: unix seconds now, used as the subject's time if the job has no incident.

    Raises:
        UnknownSubjectError: no rank or log is of this job, and no incident of it names a node.
    """
    own = tuple(each for each in incidents if each.job == job)
    nodes = _job_nodes(fleet, job) | _named(own)
    if not nodes:
        known = sorted(jobs_of(fleet))
        listed = f"there is {', '.join(known[:8])}" if known else "no job is known"
        raise UnknownSubjectError(f"no job {job}: {listed}")
    return EvidenceSubject(job, own, _in_order(fleet, nodes), own[0].first if own else wall)


def jobs_of(fleet: Fleet) -> set[str]:
    """Return the names of the jobs that any process or log file belongs to."""
    found = {process.job for node in fleet.nodes.values() for process in node.processes}
    found |= {file.job for node in fleet.nodes.values() for file in node.logs}
    return {job for job in found if job is not None}


def _job_nodes(fleet: Fleet, job: str | None) -> set[str]:
    return {
        node.name
        for node in fleet.nodes.values()
        if any(process.job == job and process.rank is not None for process in node.processes)
        or any(file.job == job for file in node.logs)
    }


def _named(incidents: Iterable[Incident]) -> set[str]:
    """Return the nodes that the alerts name, and those whose agents read the evidence."""
    alerts = [alert for incident in incidents for alert in incident.alerts]
    return {alert.node for alert in alerts if alert.node} | {
        proof.node for alert in alerts for proof in alert.proof if proof.node
    }


def _in_order(fleet: Fleet, nodes: set[str]) -> tuple[str, ...]:
    return tuple(name for name in fleet.nodes if name in nodes)
