"""Annotations of incidents: how often they were seen before, and the operators' notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from gpuwatch.diagnose.model.incident import Incident, IncidentNote, Recurrence


class Annotations:
    """Annotations by incident id; notes also by the id of the cause, if another cockpit knows only that."""

    def __init__(self) -> None:
        self._recurrences: dict[str, Recurrence] = {}
        self._notes: Mapping[str, tuple[IncidentNote, ...]] = {}

    def keep_recurrence(self, incident: str, recurrence: Recurrence) -> None:
        """Store how often an incident was seen before."""
        self._recurrences[incident] = recurrence

    def keep_notes(self, notes: Mapping[str, tuple[IncidentNote, ...]]) -> None:
        """Replace all notes."""
        self._notes = notes

    def applied(self, incidents: Iterable[Incident]) -> list[Incident]:
        """Return the incidents with their annotations."""
        return [self._one(incident) for incident in incidents]

    def _one(self, incident: Incident) -> Incident:
        recurrence = self._recurrences.get(incident.id, incident.recurrence)
        cause = "" if incident.cause is None else incident.cause.id
        found = {*self._notes.get(incident.id, ()), *self._notes.get(cause, ())}
        notes = tuple(sorted(found, key=lambda note: note.at))
        if recurrence == incident.recurrence and notes == incident.notes:
            return incident
        return structs.replace(incident, recurrence=recurrence, notes=notes)
