"""One incident as the history keeps it, and which of two are the same one. Pure."""

from __future__ import annotations

import msgspec

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.plain import plain

SAME_S = 5.0
"""Two readings of one dated line may differ by this: clocks of nodes are compared within a second or so."""
SLACK_S = 3600.0
"""A value that is over its limit again within this is the incident of before, as in `alert_book`."""
MAX_HEADLINE_CHARS = 500


class SeenIncident(msgspec.Struct, frozen=True):
    """A row of the history. Times in unix seconds."""

    node: str | None
    gpu: int | None
    uuid: str | None
    """Of the GPU, where it is known: it may be moved to another node."""
    code: str
    severity: str
    job: str | None
    headline: str
    first: float
    last: float
    timed: bool
    """Whether the line of the cause carries its time; else `first` is when it was first seen."""
    cause: str
    """The id of the cause's alert; of a line the same in every session: rule, file and place."""
    source: str
    """What was watched, as the person named it."""


def seen(incident: Incident, fleet: Fleet) -> SeenIncident:
    """An incident as it is now."""
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
    """Whether two rows are one incident, seen by two sessions, or by one session at two moments."""
    if one.code != other.code or not is_same_place(one, other):
        return False
    if one.cause and one.cause == other.cause:
        return True
    if one.timed and other.timed:
        return abs(one.first - other.first) <= SAME_S
    return one.first <= other.last + SLACK_S and other.first <= one.last + SLACK_S


def is_same_place(one: SeenIncident, other: SeenIncident) -> bool:
    """Whether both are of one GPU, else of one node; of one GPU wherever it is built in."""
    if one.uuid is not None and other.uuid is not None:
        return one.uuid == other.uuid
    return one.node is not None and (one.node, one.gpu) == (other.node, other.gpu)
