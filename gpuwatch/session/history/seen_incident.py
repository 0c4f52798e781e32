"""An incident as stored in the history, and whether two records are the same incident. Pure."""

from __future__ import annotations

import msgspec

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.plain import plain

SAME_S = 5.0
"""Seconds by which two readings of one dated line may differ; clock offsets are exact to about a second."""
SLACK_S = 3600.0
"""Seconds within which a value that crosses its limit again counts as the same incident."""
MAX_HEADLINE_CHARS = 500


class SeenIncident(msgspec.Struct, frozen=True):
    """An incident as stored in the history. Times in unix seconds."""

    node: str | None
    gpu: int | None
    uuid: str | None
    """UUID of the GPU, if known; the GPU may be moved to another node."""
    code: str
    severity: str
    job: str | None
    headline: str
    first: float
    last: float
    timed: bool
    """True if the line of the cause has a time; False: `first` is when it was first seen."""
    cause: str
    """Id of the cause's alert; for a log line it is the same in every session (rule, file and offset)."""
    source: str
    """The watched source (such as a hosts file), as the user gave it."""


def seen(incident: Incident, fleet: Fleet) -> SeenIncident:
    """Return the record of an incident."""
    cause, uuid = incident.cause, None
    if incident.node in fleet.nodes and incident.gpu is not None:
        known = fleet.nodes[incident.node].gpu_list()
        uuid = next(
            (gpu.info.uuid for gpu in known if gpu.info.index == incident.gpu and gpu.info.identified), None
        )
    is_line = cause is not None and bool(cause.proof) and cause.proof[0].kind == "line"
    return SeenIncident(
        node=incident.node and plain(incident.node),
        gpu=incident.gpu,
        uuid=uuid,
        code=plain(incident.code),
        severity=incident.severity,
        job=incident.job and plain(incident.job),
        headline=plain(incident.headline)[:MAX_HEADLINE_CHARS],
        first=incident.first,
        last=incident.last,
        timed=cause is not None and cause.timed and cause.proof[0].kind != "value",
        cause=plain(cause.id) if cause is not None and is_line else "",
        source=plain(fleet.plan.source),
    )


def is_same(one: SeenIncident, other: SeenIncident) -> bool:
    """Return True if two records are one incident, as seen by two sessions or at two times.

    They have one class and place, and one line as their cause; else, if both starts are exact, equal starts;
    else periods that touch.
    """
    if one.code != other.code or not is_same_place(one, other):
        return False
    if one.cause and one.cause == other.cause:
        return True
    if one.timed and other.timed:
        return abs(one.first - other.first) <= SAME_S
    return one.first <= other.last + SLACK_S and other.first <= one.last + SLACK_S


def is_same_place(one: SeenIncident, other: SeenIncident) -> bool:
    """Return True if both are on the GPU of one UUID (on any node), else on one node and GPU index."""
    if one.uuid is not None and other.uuid is not None:
        return one.uuid == other.uuid
    return one.node is not None and (one.node, one.gpu) == (other.node, other.gpu)
