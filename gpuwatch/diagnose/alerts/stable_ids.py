"""Alerts and incidents that grow and join keep the id, the number and the answers that they had before."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import HangCheck, Incident


class LastingIds:
    """The ids of alerts and incidents at the last judgement, which the next one takes over."""

    def __init__(self) -> None:
        self._alerts: dict[str, str] = {}
        """Part of an alert -> the alert's id."""
        self._incidents: dict[str, tuple[str, int]] = {}
        """Alert -> id and number of its incident."""
        self._last_number = 0
        self._hang_checks: dict[str, HangCheck] = {}
        """By incident."""

    def keep_hang_check(self, incident: str, hang_check: HangCheck) -> None:
        """Keep the answer to which ranks an incident's ranks wait for; it replaces an older one."""
        self._hang_checks[incident] = hang_check

    def name_alerts(self, alerts: Sequence[Alert]) -> list[Alert]:
        """An alert keeps the id under which any part of it was shown first."""
        ids: dict[str, str] = {}
        taken: set[str] = set()
        kept = []
        for alert in alerts:
            parts = alert.parts or (alert.id,)
            names = [self._alerts[part] for part in parts if part in self._alerts]
            name = next((each for each in (*names, *parts) if each not in taken), f"{alert.id}+")
            taken.add(name)
            ids.update((part, name) for part in parts)
            kept.append(alert if name == alert.id else structs.replace(alert, id=name))
        self._alerts = ids
        return kept

    def name_incidents(self, found: Sequence[Incident]) -> list[Incident]:
        """An incident that grew keeps its id and number: whoever holds most of its alerts is the same one."""
        taken: set[str] = set()
        numbers: dict[str, tuple[str, int]] = {}
        kept = []
        for incident in found:
            votes: dict[tuple[str, int], int] = {}
            for alert in incident.alerts:
                before = self._incidents.get(alert.id)
                if before is not None and before[0] not in taken:
                    votes[before] = votes.get(before, 0) + 1
            if votes:
                name, number = max(votes, key=lambda each: (votes[each], -each[1]))
            else:
                self._last_number += 1
                name, number = incident.id, self._last_number
            taken.add(name)
            numbers.update((alert.id, (name, number)) for alert in incident.alerts)
            reported = [
                self._hang_checks[each]
                for each in (name, *(one for one, _ in votes))
                if each in self._hang_checks
            ]
            # of several that became one, the newest
            hang_check = max(reported, key=lambda each: each.at, default=None)
            kept.append(structs.replace(incident, id=name, number=number, hang_check=hang_check))
        self._incidents = numbers
        return kept
