"""Keeps the ids, numbers and hang checks of alerts and incidents stable while they grow and merge."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import HangCheck, Incident


class LastingIds:
    """Ids of alerts and incidents as of the last judgement, reused by the next one."""

    def __init__(self) -> None:
        self._alerts: dict[str, str] = {}
        """Source alert -> id of the merged alert that contains it."""
        self._incidents: dict[str, tuple[str, int]] = {}
        """Alert -> id and number of its incident."""
        self._last_number = 0
        self._hang_checks: dict[str, HangCheck] = {}
        """Incident id -> its hang check."""

    def keep_hang_check(self, incident: str, hang_check: HangCheck) -> None:
        """Store a hang check for an incident; it replaces an older one."""
        self._hang_checks[incident] = hang_check

    def name_alerts(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Return the alerts; each gets the id under which one of its parts was shown before, if any was."""
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
        """Return the incidents with their ids, numbers and hang checks.

        An incident takes id and number from the earlier one with which it shares most alerts; a new one gets
        the next number. Its hang check is the newest of all earlier incidents of which it has an alert.
        """
        taken: set[str] = set()
        earlier = {name for name, _ in self._incidents.values()}
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
                number = self._last_number
                used = incident.id in taken or incident.id in earlier
                name = f"{incident.id}-{number}" if used else incident.id
            taken.add(name)
            numbers.update((alert.id, (name, number)) for alert in incident.alerts)
            reported = [
                self._hang_checks[each]
                for each in (name, *(one for one, _ in votes))
                if each in self._hang_checks
            ]
            # if several incidents became one, its newest id
            hang_check = max(reported, key=lambda each: each.at, default=None)
            kept.append(structs.replace(incident, id=name, number=number, hang_check=hang_check))
        self._incidents = numbers
        return kept
