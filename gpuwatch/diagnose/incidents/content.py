"""The content of an incident as blocks, for text, Markdown and screens: facts, steps, evidence, timeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import structs

from gpuwatch.blocks.model import (
    Item,
    Line,
    Property,
    Quote,
    SeveritySign,
    TimelineEvent,
    numbered,
)
from gpuwatch.diagnose.incidents.evidence import evidence, undated_incident
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident, IncidentNote, Moment
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.number_text import moment, plural, ranges

Place: TypeAlias = Callable[[Alert, Proof], str]

RECORDED = "a recording, whose text is untrusted; check a command before you run it"
"""Warning beside the steps of an incident that comes from a recording."""
FIRST_DATE_S = 1e8
"""Unix seconds; a smaller number is no date, such as the seconds since boot in a kernel line."""
UNDATED = "undated"


def facts(incident: Incident) -> list[Property]:
    """Return the known properties of an incident: time, class, job, confidence, history, notes, reason."""
    checkpoint, recurrence = incident.checkpoint, incident.recurrence
    silent = [rank for rank in incident.silent if rank != incident.rank]
    known = [
        Property("first seen", first_seen(incident)),
        Property("class", incident.code, incident.severity, style="code"),
        Property("job", incident.job or ""),
        Property("confidence", incident.confidence, incident.because),
        Property("followers", followers(incident)),
        Property("restarts", incident.restarted),
        Property("checkpoint", checkpoint.text if checkpoint is not None else ""),
        Property("history", recurrence.text if recurrence is not None else ""),
        *(Property("note", f"{moment(note.at)}, {note.by}: {note.text}") for note in incident.notes),
        Property(
            "silent",
            f"{ranks_text(silent, every=True)}: no output while the others reported" if silent else "",
        ),
        Property("why", incident.explain),
    ]
    return [fact for fact in known if fact.text]


def first_seen(incident: Incident) -> str:
    """Return the start of an incident as text with date and zone, marked if it is only a bound."""
    cause = incident.cause
    if not incident.first or undated_incident(incident):
        return "undated: no timestamp near this line"
    if cause is None or cause.timed:
        return moment(incident.first)
    if cause.bound == "after" and cause.not_before is not None:
        return f"at or after {moment(cause.not_before)}: the line has no timestamp"
    return f"before {moment(incident.first)}: the line has no timestamp"


def followers(incident: Incident) -> str:
    """Return the number of ranks that only followed the first failure, as text, with the ranks if known."""
    if not incident.followers:
        return "none"
    ranks = sorted({alert.rank for alert in incident.alerts if alert.rank is not None} - {incident.rank})
    named = f" ({ranks_text(ranks, every=True)})" if len(ranks) == incident.followers else ""
    return f"{incident.followers}{named}"


def notes(incident: Incident, now: float) -> list[Item]:
    """Return the operators' notes. `now`: unix seconds; notes of other days are dated."""
    return [_note(note, now) for note in incident.notes]


def _note(note: IncidentNote, now: float) -> Item:
    return Item(note.text, sign="pointer", below=(f"{note.by}  {clock(note.at, now)}",))


def last_checkpoint(incident: Incident) -> list[Item]:
    """Return one item about the job's last checkpoint; empty if none is known.

    Its sign is `warning` if the checkpoint is incomplete, a later one is unfinished, or logs are partly read.
    """
    last = incident.checkpoint
    if last is None:
        return []
    broken = last.complete is False or last.unfinished_step is not None or last.read_pct is not None
    return [Item(last.text, sign="warning" if broken else "info", copy=last.path or "")]


def steps(incident: Incident) -> list[Item]:
    """Return the next steps of an incident, with the commands to copy."""
    return numbered(incident.do)


def meaning(incident: Incident) -> list[Line | Item]:
    """Return text on what the failure class means in general, and where to read more."""
    explained = [Line(incident.explain)] if incident.explain else []
    return [*explained, *(Item(link, style="muted") for link in incident.links)]


def proof_place(alert: Alert, proof: Proof) -> str:
    """Return the source of a proof as text: node, rank, file, as far as known."""
    rank = None if alert.rank is None else f"rank {alert.rank}"
    return "  ".join(part for part in (proof.node or alert.node, rank, proof.file) if part)


def quotes(incident: Incident, place: Place = proof_place) -> list[Quote]:
    """Return a quote for each proof of an incident's evidence, in its order; `place` formats its location."""
    stated: set[str] = set()
    found: list[Quote] = []
    for alert, proof in evidence(incident):
        if alert is incident.cause and proof.text in stated:
            continue  # a line and its event state the same
        stated.add(proof.text)
        found.append(_quote(incident, alert, proof, place))
    return found


def _quote(incident: Incident, alert: Alert, proof: Proof, place: Place) -> Quote:
    more = sum(each.count for each in incident.alerts if each.code == alert.code) - 1
    of_cause = alert is incident.cause
    return Quote(
        proof.text or alert.text or alert.title,
        place(alert, proof),
        proof.lines,
        proof.key,
        code=alert.code,
        more=0 if of_cause else more,
        offset=proof.offset,
        at=proof.at,
        timed=proof.timed,
        of_cause=of_cause,
        about=structs.replace(alert, proof=(proof, *alert.proof)),
    )


def events(incident: Incident) -> list[TimelineEvent]:
    """Return the timeline, the oldest event first."""
    by_id = {alert.id: alert for alert in incident.alerts}
    return [_event(each, incident, by_id.get(each.alert)) for each in incident.timeline]


def _event(entry: Moment, incident: Incident, alert: Alert | None) -> TimelineEvent:
    caused = incident.cause is not None and entry.alert == incident.cause.id
    sign: SeveritySign = "critical" if caused else "warning" if entry.role != "hint" else "info"
    times = f" x{entry.count}" if entry.count not in (1, len(entry.ranks)) else ""
    dated = entry.at >= FIRST_DATE_S
    since = since_cause(entry, incident) if dated else ""
    when = clock(entry.at) if dated else UNDATED
    return TimelineEvent(when, since, entry.role, entry.what + times, who(entry), sign, alert)


def who(entry: Moment) -> str:
    """Return `rank 85 on gpu-003`, `127 ranks: 0-84, 86-127`, the node, or ""."""
    if len(entry.ranks) == 1:
        text = f"rank {entry.ranks[0]}"
        return f"{text} on {entry.node}" if entry.node else text
    if entry.ranks:
        return f"{plural(len(entry.ranks), 'rank')}: {ranges(entry.ranks)}"
    return entry.node or ""


def since_cause(entry: Moment, incident: Incident) -> str:
    """Return the time since the cause, `+30.1s`; for a line without timestamp its bound, such as `after`."""
    if entry.bound is not None:
        return entry.bound
    return offset_text(entry.at - _zero(incident))


def _zero(incident: Incident) -> float:
    """Return the time from which the offsets in the timeline count (unix seconds).

    They count from the earliest possible time of a cause without a timestamp, or if that is unknown, from the
    first timed event: not before the latest possible time, if that is known.
    """
    cause = incident.cause
    if cause is None or cause.timed:
        return incident.first
    if cause.bound == "after" and cause.not_before is not None:
        return cause.not_before
    known = incident.first if cause.bound == "before" else 0.0
    timed = (each.at for each in incident.timeline if each.bound is None and each.at)
    return next((at for at in timed if at >= known), incident.first)


def offset_text(seconds: float) -> str:
    """Return seconds since the cause as text: `+30.1s`, `-12m` or `+3h`."""
    sign = "-" if seconds < -0.05 else "+"
    size = abs(seconds)
    if size < 100:
        return f"{sign}{size:.1f}s"
    return f"{sign}{size / 60:.0f}m" if size < 6000 else f"{sign}{size / 3600:.0f}h"
