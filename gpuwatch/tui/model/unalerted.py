"""The conditions of nodes and GPUs that have no alert, as alerts for the list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex, as_alert
from gpuwatch.diagnose.alerts.hysteresis import key
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition


class Unalerted:
    """The conditions without an alert in the book, as alerts by id; `version` increases with changes."""

    def __init__(self) -> None:
        self.alerts: dict[str, Alert] = {}
        self.version = 0
        self._index = AlertIndex(())
        self._indexed: int | None = None

    def refresh(
        self,
        conditions: Iterable[tuple[str, Condition]],
        alerts: Mapping[str, Alert],
        book_version: int,
        wall: float,
    ) -> None:
        """Set `alerts` to the conditions that no alert of the book states, without those of severity info.

        Args:
            conditions: (node, condition) pairs.
            alerts: The book's, by id.
            book_version: Of the book.
            wall: Unix seconds.
        """
        if book_version != self._indexed:
            self._index, self._indexed = AlertIndex(alerts.values()), book_version
        found: dict[str, Alert] = {}
        for node, condition in conditions:
            if condition.severity == "info" or self._index.states(node, condition):
                continue
            name = key(node, condition)
            known = self.alerts.get(name)
            if known is not None and known.severity == condition.severity:
                found[name] = known
            else:
                found[name] = as_alert(node, condition, known.first if known else wall, wall)
        if found != self.alerts:
            self.alerts = found
            self.version += 1
