"""Finds the log lines that prove an incident: node, file and offset, per rank."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident


class LogLocation(Struct, frozen=True):
    """A line in a node's log file."""

    node: str
    file: str
    offset: int
    at: float
    """Unix seconds on our clock."""
    rank: int | None


def location_of(alert: Alert) -> LogLocation | None:
    """Return the location of the first log line that an alert is based on; None if it has none."""
    for proof in alert.proof:
        node = proof.node or alert.node
        if node is not None and proof.file is not None and proof.offset is not None:
            return LogLocation(node, proof.file, proof.offset, _moment(alert, proof), alert.rank)
    return None


def alert_with_line(incident: Incident) -> Alert | None:
    """Return the alert whose log line proves an incident: its cause, else another one about its rank.

    An exit status proves that a rank ended, and the line of its exception why. If no alert has a line, the
    cause; None without a cause.
    """
    about = [each for each in incident.alerts if each.rank in (None, incident.rank) and each.role != "echo"]
    cause = incident.cause
    raised = raised_by(cause, incident.alerts) if cause else None
    alerts = [*(each for each in (raised, cause) if each), *about]
    return next((each for each in alerts if location_of(each)), incident.cause)


def _moment(alert: Alert, proof: Proof) -> float:
    return alert.first if proof.at is None else proof.at


def ranks_of(incident: Incident, job: Iterable[int | str] = ()) -> list[int]:
    """Return the ranks of an incident and of its `job`: its own rank first, the others ascending.

    What `job` has besides numbers (files without a rank) is left out.
    """
    named = {rank for rank in job if isinstance(rank, int)}
    named |= {rank for moment in incident.timeline for rank in moment.ranks}
    named |= {alert.rank for alert in incident.alerts if alert.rank is not None} | set(incident.silent)
    return sorted(named, key=lambda rank: (rank != incident.rank, rank))


def spots_by_rank(incident: Incident) -> list[LogLocation]:
    """Return the location of each involved rank's earliest line, by time; the incident's own rank is first.

    Ranks whose lines have the same time are in ascending order.
    """
    first: dict[int, LogLocation] = {}
    for alert in sorted(incident.alerts, key=lambda each: each.first):
        spot = location_of(alert)
        if spot is not None and spot.rank is not None:
            first.setdefault(spot.rank, spot)
    return sorted(first.values(), key=lambda spot: (spot.rank != incident.rank, spot.at, spot.rank or 0))


def location_after(incident: Incident, rank: int | None) -> LogLocation | None:
    """Return the location of the line of the rank after `rank`, wrapping around; None without any line.

    If `rank` has no line, that of the first rank.
    """
    spots = spots_by_rank(incident)
    if not spots:
        return None
    ranks = [spot.rank for spot in spots]
    return spots[(ranks.index(rank) + 1) % len(spots)] if rank in ranks else spots[0]
