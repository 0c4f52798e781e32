"""Conditions of nodes and GPUs that the list of alerts lacks: those without an alert, and newer values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex, as_alert
from gpuwatch.diagnose.alerts.held_conditions import key
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.diagnose.model.text import clock

RENEW_S_PER_ALERT, MAX_RENEW_S = 0.001, 1.0
"""Shortest time between two updates of a value in seconds, per alert and at most.

Each update makes a new snapshot of all alerts. With few alerts every frame may have one, so that a value
is the same in the list of alerts and in what is painted from the nodes.
"""
GONE_S = 5.0
"""Seconds without a condition from which on the text of its alert, which still fires, has the last time."""


class Unalerted:
    """The conditions that the book does not have, as alerts by id; `version` increases with changes.

    They are those without an alert, and those whose alert has another value than the newest. The text of an
    alert that fires without its condition states when that was last seen.
    """

    def __init__(self) -> None:
        self.alerts: dict[str, Alert] = {}
        self.version = 0
        self._index = AlertIndex(())
        self._indexed: int | None = None
        self._seen: dict[str, tuple[str, float]] = {}
        """Id of an alert that fires -> the newest text of its condition, and when (unix seconds)."""
        self._renewed = 0.0
        """When values were last updated (unix seconds)."""

    def refresh(
        self,
        conditions: Iterable[tuple[str, Condition]],
        alerts: Mapping[str, Alert],
        book_version: int,
        wall: float,
    ) -> None:
        """Set `alerts` to the conditions that the book lacks, or has with an older value.

        Conditions of severity info are left out.

        Args:
            conditions: (node, condition) pairs.
            alerts: The alerts of the book, by id.
            book_version: The version of the book.
            wall: Unix seconds.
        """
        if book_version != self._indexed:
            self._index, self._indexed = AlertIndex(alerts.values()), book_version
        found: dict[str, Alert] = {}
        renews = wall - self._renewed >= min(MAX_RENEW_S, RENEW_S_PER_ALERT * len(alerts))
        for node, condition in conditions:
            if condition.severity == "info":
                continue
            name = key(node, condition)
            known = self.alerts.get(name)
            text = condition.text if known is None or renews else known.text
            if self._index.states(node, condition):
                own = alerts.get(name)
                if own is None or own.state != "firing":
                    continue
                self._seen[name] = condition.text, wall
                if text != own.text:
                    found[name] = structs.replace(own, text=text)
            elif known is not None and known.severity == condition.severity:
                found[name] = known if known.text == text else structs.replace(known, text=text)
            else:
                found[name] = as_alert(node, condition, known.first if known else wall, wall)
        self._date_gone(found, alerts, wall)
        if renews:
            self._renewed = wall
        if found != self.alerts:
            self.alerts = found
            self.version += 1

    def _date_gone(self, found: dict[str, Alert], alerts: Mapping[str, Alert], wall: float) -> None:
        """Add to `found` the firing alerts whose condition is gone, with the time when it was last seen."""
        for name, (text, at) in list(self._seen.items()):
            own = alerts.get(name)
            if own is None or own.state != "firing":
                del self._seen[name]
            elif wall - at >= GONE_S:
                found[name] = structs.replace(own, text=f"{text}, last seen {clock(at, wall)}")
