"""Converts conditions into alerts, and states which of them a set of alerts already reports."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from gpuwatch.diagnose.alerts.held_conditions import key, proof_of
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.diagnose.model.rank_index import RankIndex


class AlertIndex:
    """Looks up whether a set of alerts reports a condition."""

    def __init__(self, alerts: Iterable[Alert]) -> None:
        self._names: set[str] = set()
        self._xids: set[tuple[str | None, int | None, str]] = set()
        self._ranks: set[tuple[str | None, str]] = set()
        for alert in alerts:
            self._names.update((alert.id, *alert.parts))
            if alert.kernel:
                self._xids.add((alert.node, alert.gpu, f"Xid {alert.fields.get('xid')}"))
            if alert.rank is not None:
                self._ranks.add((alert.node, f"rank {alert.rank}"))

    def states(self, node: str, condition: Condition) -> bool:
        """Return True if one of the alerts reports this condition of the node."""
        if condition.code == "xid":
            return (node, condition.gpu, condition.text.partition(":")[0]) in self._xids
        if condition.code == "rank_missing":
            return (node, condition.text.partition(" of ")[0]) in self._ranks
        return key(node, condition) in self._names


def as_alert(node: str, condition: Condition, since: float, wall: float) -> Alert:
    """Return a condition as a firing alert. `since`, `wall`: unix seconds."""
    proof = proof_of(condition, node, wall, wall)
    return Alert(
        key(node, condition), condition.code, condition.severity, condition.text, condition.text, (proof,),
        role="hint", node=node, gpu=condition.gpu, first=since, last=wall,
    )  # fmt: skip


def on_its_rank(alert: Alert, where: RankIndex) -> Alert:
    """Return the alert of a GPU, with the rank and job that used the GPU at its last report.

    For an Xid: at its first. The alert is unchanged if no rank is known.
    """
    at = alert.first if alert.code == "xid" else alert.last
    place = None if alert.gpu is None else where.by(alert.node, "gpu", alert.gpu, at=at)
    if place is None:
        return alert
    return structs.replace(alert, rank=place.rank, rank_from="process", job=place.job)
