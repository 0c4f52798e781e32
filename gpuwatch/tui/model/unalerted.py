"""The conditions of the overview that have no alert, as rows beside the alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex, as_alert
from gpuwatch.diagnose.alerts.hysteresis import key
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition


class Unalerted:
    """The warnings of the first screen that the alert book does not contain.

    `version` changes with the set.
    """

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
        """Update from the conditions by node, of severity warning and above. `wall`: unix seconds."""
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
