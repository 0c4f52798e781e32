"""Lines about a rank in another node's log, weighed against what the rank's own node reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import structs

from gpuwatch.diagnose.alert import Alert
from gpuwatch.diagnose.classes import EXITS, KERNEL_RULES
from gpuwatch.diagnose.whereabouts import Whereabouts
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.places import RankPlace

NOTICED_S = 15.0
"""A process that ended is off its node's list so soon: processes are listed every few seconds."""


@dataclass(frozen=True)
class NodeReport:
    """What a node tells of itself."""

    processes_at: float | None = None
    """When it listed its processes last: unix seconds on our clock."""
    read: frozenset[str] = frozenset()
    """Log files on its own disks that its agent follows."""
    shared: frozenset[str] = frozenset()
    """Log files that other nodes see as well."""


def node_reports(fleet: Fleet, now: float, wall: float) -> dict[str, NodeReport]:
    """Every node's own report. `now`: the fleet's monotonic clock; `wall`: unix seconds."""
    return {
        name: NodeReport(
            None if node.processes_at is None else wall - (now - node.processes_at),
            frozenset(f.path for f in node.logs if f.state == "following" and f.identity is None),
            frozenset(file.path for file in node.logs if file.identity is not None),
        )
        for name, node in fleet.nodes.items()
    }


def with_contradictions(
    alerts: Iterable[Alert], where: Whereabouts, reports: Mapping[str, NodeReport]
) -> list[Alert]:
    """The alerts, those marked that the node of their rank contradicts."""
    found = []
    for alert in alerts:
        doubt = "" if alert.doubt else contradiction(alert, where, reports)
        if doubt:
            text = f"{alert.text}; {doubt}"
            found.append(structs.replace(alert, doubt=doubt, refuted=True, text=text))
        else:
            found.append(alert)
    return found


def changed(alerts: Iterable[Alert], where: Whereabouts, reports: Mapping[str, NodeReport]) -> bool:
    """Whether a contradiction came up, or fell, since the alerts were marked."""
    return any(
        alert.refuted != bool(contradiction(alert, where, reports))
        for alert in alerts
        if not alert.code.startswith(KERNEL_RULES)
    )


def contradiction(alert: Alert, where: Whereabouts, reports: Mapping[str, NodeReport]) -> str:
    """What speaks against a line, in words; empty where nothing does."""
    if alert.rank is None or alert.kernel or alert.rank_from not in ("line", "field", "index"):
        return ""
    place = where.of(alert.rank, alert.job)
    if place is None:
        return ""
    report = reports.get(place.node, NodeReport())
    if alert.code in EXITS and _lives(alert, place, report):
        return f"rank {alert.rank} still runs on {place.node}, as process {place.pid}"
    if alert.rank_from == "line" and _only_elsewhere(alert, place, reports):
        return f"rank {alert.rank} runs on {place.node}, and its own log there does not have it"
    return ""


def _only_elsewhere(alert: Alert, place: RankPlace, reports: Mapping[str, NodeReport]) -> bool:
    """Whether other nodes' logs have the rank's line, and the rank's own log, which is read, has not."""
    for proof in alert.proof:
        seen = reports.get(proof.node or "", NodeReport())
        if proof.kind != "line" or proof.node == place.node or proof.file in seen.shared:
            return False
    return any(path in reports.get(place.node, NodeReport()).read for path in place.logs)


def _lives(alert: Alert, place: RankPlace, report: NodeReport) -> bool:
    """Whether its node listed the same process long after it is said to have ended."""
    if place.until is not None or place.started is None or report.processes_at is None:
        return False
    return place.started < alert.first and report.processes_at > alert.last + NOTICED_S
