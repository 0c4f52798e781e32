"""Acknowledgements, silences and notes as a cluster's file stores them, and changes of these. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, structs

from gpuwatch.diagnose.alerts.operator_marks import Acknowledgement
from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.diagnose.model.incident import IncidentNote
from gpuwatch.wire.limits import GpuIndex, Moment, Name, Rank

VERSION = 1
MAX_NOTE_CHARS = 2000
MAX_MARKS = 5000
"""Most entries of each kind; the oldest are dropped."""
KEPT_ACKNOWLEDGED_S, KEPT_NOTES_S = 14 * 86_400.0, 180 * 86_400.0
NoteText = Annotated[str, Meta(max_length=MAX_NOTE_CHARS)]
Who = Annotated[str, Meta(max_length=200)]
AlertId = Annotated[str, Meta(max_length=20_000)]


class KeptAcknowledgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored acknowledgement. Times in unix seconds."""

    alert: AlertId
    at: Moment
    by: Who = ""
    first: Moment = 0.0
    """Start of the alert."""


class KeptSilence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored silence with its author."""

    code: Name
    node: Name | None = None
    gpu: GpuIndex | None = None
    rank: Rank | None = None
    until: Moment | None = None
    at: Moment = 0.0
    by: Who = ""

    @property
    def silence(self) -> Silence:
        """Return the silence in the form that the alert book uses."""
        return Silence(self.code, self.node, self.gpu, self.rank, self.until)


class KeptNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored note on an incident.

    In other sessions the incident may have another id but the same `cause`.
    """

    incident: AlertId
    text: NoteText
    at: Moment
    by: Who = ""
    cause: AlertId = ""


class ClusterMarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """All marks of a cluster, each kind in order of creation."""

    version: int = VERSION
    acknowledged: tuple[KeptAcknowledgement, ...] = ()
    silences: tuple[KeptSilence, ...] = ()
    notes: tuple[KeptNote, ...] = ()

    @property
    def acknowledgements(self) -> list[Acknowledgement]:
        """Return the acknowledgements in the form that the alert book uses."""
        return [
            Acknowledgement(each.alert, each.at, each.by or None, each.first) for each in self.acknowledged
        ]

    def notes_by_id(self) -> dict[str, tuple[IncidentNote, ...]]:
        """Return the notes by incident id, and again by the id of the incident's cause."""
        found: dict[str, list[IncidentNote]] = {}
        for each in self.notes:
            note = IncidentNote(each.at, each.by, each.text)
            for name in {each.incident, each.cause} - {""}:
                found.setdefault(name, []).append(note)
        return {name: tuple(notes) for name, notes in found.items()}


def acknowledge(marks: ClusterMarks, new: Iterable[KeptAcknowledgement]) -> ClusterMarks:
    """Return the marks with these acknowledgements, which replace those of the same alerts."""
    added = {each.alert: each for each in new}
    kept = [each for each in marks.acknowledged if each.alert not in added]
    return structs.replace(marks, acknowledged=(*kept, *added.values()))


def unacknowledge(marks: ClusterMarks, alerts: Iterable[str]) -> ClusterMarks:
    """Return the marks without the acknowledgements of these alerts."""
    gone = set(alerts)
    return structs.replace(
        marks, acknowledged=tuple(each for each in marks.acknowledged if each.alert not in gone)
    )


def silence(marks: ClusterMarks, new: KeptSilence) -> ClusterMarks:
    """Return the marks with this silence, which replaces one with the same match."""
    kept = unsilence(marks, new.silence).silences
    return structs.replace(marks, silences=(*kept, new))


def unsilence(marks: ClusterMarks, gone: Silence) -> ClusterMarks:
    """Return the marks without the silence that has the same match, whatever its end."""
    place = (gone.code, gone.node, gone.gpu, gone.rank)
    kept = (each for each in marks.silences if (each.code, each.node, each.gpu, each.rank) != place)
    return structs.replace(marks, silences=tuple(kept))


def with_note(marks: ClusterMarks, note: KeptNote) -> ClusterMarks:
    """Return the marks with this note, unless they contain it: a write of unknown outcome is repeated."""
    if note in marks.notes:
        return marks
    return structs.replace(marks, notes=(*marks.notes, note))


def smaller(marks: ClusterMarks) -> ClusterMarks:
    """Return the marks without the older half of the notes and acknowledgements."""
    notes, kept = marks.notes, marks.acknowledged
    return structs.replace(
        marks, notes=notes[(len(notes) + 1) // 2 :], acknowledged=kept[(len(kept) + 1) // 2 :]
    )


def lasting(marks: ClusterMarks, wall: float) -> ClusterMarks:
    """Return the newest `MAX_MARKS` of each kind, without those that have ended or are too old.

    Acknowledgements are kept for 14 days, notes for 180. `wall`: unix seconds.
    """
    return ClusterMarks(
        marks.version,
        tuple(one for one in marks.acknowledged if one.at > wall - KEPT_ACKNOWLEDGED_S)[-MAX_MARKS:],
        tuple(one for one in marks.silences if one.until is None or one.until > wall)[-MAX_MARKS:],
        tuple(one for one in marks.notes if one.at > wall - KEPT_NOTES_S)[-MAX_MARKS:],
    )
