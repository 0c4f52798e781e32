"""Compares lines about a rank's end with the rank's process, as its own node lists it."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS
from gpuwatch.diagnose.model.rank_index import RankIndex, started_anew
from gpuwatch.diagnose.sources.node_report import NodeReport
from gpuwatch.fleet.jobs.places import RankPlace

NOTICED_S = 15.0
"""Seconds within which an ended process is removed from its node's list (updated every few seconds)."""


def ended_after(alert: Alert, place: RankPlace) -> bool:
    """Return True if the rank's own node shows that its process ended or restarted after the alert."""
    if place.until is not None:
        return alert.first <= place.until + NOTICED_S
    return started_anew(place, alert.first)


def ended_first(place: RankPlace, where: RankIndex) -> bool:
    """Return True if a rank ended before the others of its node, or is not known to have ended."""
    others = [each.until for each in where.on(place.node, place.job) if each.rank != place.rank]
    return place.until is None or (
        bool(others) and all(each is None or each > place.until for each in others)
    )


def came_later(alert: Alert, place: RankPlace) -> bool:
    """Return True if a rank was started after the alert's line, which is then about the previous process."""
    return place.started is not None and place.started > alert.first


def still_runs(alert: Alert, place: RankPlace, reports: Mapping[str, NodeReport]) -> bool:
    """Return True if the rank's node still listed the process long after a line reported its end."""
    listed_at = reports.get(place.node, NodeReport()).processes_at
    if alert not in EXITS or place.until is not None or place.started is None or listed_at is None:
        return False
    return place.started < alert.first and listed_at > alert.last + NOTICED_S
