"""Conditions of nodes and GPUs that the list of alerts lacks: those without an alert, and newer values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex, as_alert
from gpuwatch.diagnose.alerts.hysteresis import key
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition

RENEW_S = 1.0
"""Shortest time between two updates of a value (seconds): each makes a new snapshot of all alerts."""


class Unalerted:
    """The conditions that the book does not have, as alerts by id; `version` increases with changes.

    They are those without an alert, and those whose alert still has the value at which it fired.
    """

    def __init__(self) -> None:
        self.alerts: dict[str, Alert] = {}
        self.version = 0
        self._index = AlertIndex(())
        self._indexed: int | None = None
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
        renews = wall - self._renewed >= RENEW_S
        for node, condition in conditions:
            if condition.severity == "info":
                continue
            name = key(node, condition)
            known = self.alerts.get(name)
            text = condition.text if known is None or renews else known.text
            if self._index.states(node, condition):
                own = alerts.get(name)
                if own is not None and own.state == "firing" and text != own.text:
                    found[name] = structs.replace(own, text=text)
            elif known is not None and known.severity == condition.severity:
                found[name] = known if known.text == text else structs.replace(known, text=text)
            else:
                found[name] = as_alert(node, condition, known.first if known else wall, wall)
        if renews:
            self._renewed = wall
        if found != self.alerts:
            self.alerts = found
            self.version += 1
