"""What an incident carries besides its alerts: how often it was seen before, and notes about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from gpuwatch.diagnose.model.incident import Incident, IncidentNote, Recurrence


class Annotations:
    """By the id of the incident; notes also by the id of its cause, which another cockpit may know alone."""

    def __init__(self) -> None:
        self._recurrences: dict[str, Recurrence] = {}
        self._notes: Mapping[str, tuple[IncidentNote, ...]] = {}

    def keep_recurrence(self, incident: str, recurrence: Recurrence) -> None:
        """Keep how often it was seen before; it replaces what was kept."""
        self._recurrences[incident] = recurrence

    def keep_notes(self, notes: Mapping[str, tuple[IncidentNote, ...]]) -> None:
        """Replace all notes."""
        self._notes = notes

    def applied(self, incidents: Iterable[Incident]) -> list[Incident]:
        """The incidents with what is kept of them."""
        return [self._one(incident) for incident in incidents]

    def _one(self, incident: Incident) -> Incident:
        recurrence = self._recurrences.get(incident.id, incident.recurrence)
        cause = "" if incident.cause is None else incident.cause.id
        found = {*self._notes.get(incident.id, ()), *self._notes.get(cause, ())}
        notes = tuple(sorted(found, key=lambda note: note.at))
        if recurrence == incident.recurrence and notes == incident.notes:
            return incident
        return structs.replace(incident, recurrence=recurrence, notes=notes)
