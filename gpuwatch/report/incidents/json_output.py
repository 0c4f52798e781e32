"""An incident as plain data: the JSON of `scan` and `once`, and the source of the text report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from gpuwatch.diagnose.error_outcome.refutation import remains
from gpuwatch.diagnose.incidents.evidence import evidence, undated, undated_incident
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import HangCheck, Incident, IncidentNote, Moment, Recurrence
from gpuwatch.diagnose.model.last_activity import Activity
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.plain import plain
from gpuwatch.report.output.checkpoints import checkpoint_facts
from gpuwatch.report.output.renamed_keys import with_new_names
from gpuwatch.wire import TimeBound

Facts: TypeAlias = dict[str, Any]

MAX_LINE_CHARS = 16 * 1024
"""Length in characters at which agents cut lines."""
MAX_PROOF_CHARS = 64 * 1024
"""Maximum number of characters of the lines around a key line."""
MAX_FIELDS, MAX_FIELD_CHARS = 64, 4096


def incident_facts(incident: Incident) -> Facts:
    """Return the incident as data; all keys are always present, unknown is None.

    Documented in `docs/json.md`.
    """
    cause = incident.cause
    return with_new_names(
        {
            "headline": (headline := plain(incident.headline)),
            "sentence": headline,
            "class": incident.code,
            "severity": incident.severity,
            "rank": incident.rank,
            "node": named(incident.node),
            "gpu": incident.gpu,
            "job": named(incident.job),
            "first_seen": None if undated_incident(incident) else incident.first or None,
            "first_seen_exact": cause is not None and cause.timed,
            "first_seen_bound": first_seen_bound(incident),
            "not_before": None if cause is None or cause.timed else cause.not_before,
            "last_seen": None if all(map(undated, incident.alerts)) else incident.last or None,
            "confidence": incident.confidence,
            "because": plain(incident.because),
            "closed": incident.closed,
            "restarted": plain(incident.restarted) or None,
            "settle": [plain(step) for step in incident.settle],
            "followers": incident.followers,
            "silent": list(incident.silent),
            "last_activity": None
            if incident.last_activity is None
            else activity_facts(incident.last_activity),
            "checkpoint": checkpoint_facts(incident.checkpoint),
            "acknowledged": incident.acknowledged,
            "acknowledged_at": incident.acknowledged_at,
            "acknowledged_by": named(incident.acknowledged_by),
            "history": recurrence_facts(incident.recurrence),
            "notes": [note_facts(note) for note in incident.notes],
            "evidence": [proof_facts(alert, proof) for alert, proof in evidence(incident)],
            "timeline": [moment_facts(moment) for moment in incident.timeline],
            "explain": plain(incident.explain),
            "do": [plain(step) for step in incident.do],
            "heard": None if incident.hang_check is None else hang_check_facts(incident.hang_check),
        }
    )


def recurrence_facts(recurrence: Recurrence | None) -> Facts | None:
    """Return how often the incident was seen before at its place, as data; None stays None."""
    if recurrence is None:
        return None
    return {
        "count": recurrence.count,
        "days": recurrence.days,
        "text": plain(recurrence.text) or None,
        "earlier": [
            {"at": each.at, "job": named(each.job), "headline": plain(each.headline)}
            for each in recurrence.earlier
        ],
    }


def note_facts(note: IncidentNote) -> Facts:
    """Return an operator's note as data."""
    return {"at": note.at, "by": plain(note.by), "text": plain(note.text)}


def first_seen_bound(incident: Incident) -> TimeBound | None:
    """Return how the start is bounded by other lines' times; None if it is exact, or there is no cause."""
    if undated_incident(incident):
        return "undated"
    cause = incident.cause
    return None if cause is None or cause.timed else cause.bound


def activity_facts(activity: Activity) -> Facts:
    """Return the last line of the suspected rank as data."""
    return {"rank": activity.rank, "file": named(activity.file), "line": plain(activity.line)}


def hang_check_facts(hang_check: HangCheck) -> Facts:
    """Return the result of a hang query as data."""
    return with_new_names(
        {
            "at": hang_check.at,
            **_verdict_facts(hang_check.verdict),
            "do": [{"what": plain(what), "command": plain(command)} for what, command in hang_check.do],
        }
    )


def verdict_facts(verdict: Verdict) -> Facts:
    """Return a verdict on a hang as a dict for JSON."""
    return with_new_names(_verdict_facts(verdict))


def _verdict_facts(verdict: Verdict) -> Facts:
    return {
        "wrong": verdict.wrong,
        "sentence": plain(verdict.sentence),
        "culprits": list(verdict.culprits),
        "confidence": verdict.confidence if verdict.wrong else None,
        "evidence": [plain(each) for each in verdict.evidence],
        "settle": [plain(each) for each in verdict.settle],
    }


def bounded(lines: Sequence[str], key: int) -> tuple[list[str], int]:
    """Return the lines around line `key` that fit into `MAX_PROOF_CHARS`, sanitized, and its new index.

    A node may send far more than an agent does, so the text of each proof is bounded.
    """
    cut = [plain(line[:MAX_LINE_CHARS]) for line in lines]
    first = last = min(key, max(0, len(cut) - 1))
    left = MAX_PROOF_CHARS - sum(map(len, cut[first : first + 1]))
    while True:
        above = first > 0 and len(cut[first - 1]) <= left
        below = last + 1 < len(cut) and len(cut[last + 1]) <= left
        if not (above or below):
            return cut[first : last + 1], key - first
        if above and (not below or key - first <= last - key):
            first -= 1
            left -= len(cut[first])
        else:
            last += 1
            left -= len(cut[last])


def bounded_fields(fields: Mapping[str, str | float]) -> Facts:
    """Return the fields of an alert, sanitized, limited to the number and length that rules produce."""
    return {
        plain(name[:MAX_FIELD_CHARS]): as_plain(value[:MAX_FIELD_CHARS] if isinstance(value, str) else value)
        for name, value in islice(fields.items(), MAX_FIELDS)
    }


def proof_facts(alert: Alert, proof: Proof) -> Facts:
    """Return a piece of evidence as data, with its source and location."""
    lines, key = bounded(proof.lines, proof.key)
    return {
        "kind": proof.kind,
        "class": alert.code,
        "role": alert.role,
        "text": plain(proof.text[:MAX_LINE_CHARS]),
        "at": proof.at,
        "timed": proof.timed,
        "rank": alert.rank,
        "node": named(proof.node),
        "gpu": alert.gpu,
        "file": named(proof.file),
        "offset": proof.offset,
        "line": None,
        "lines": lines,
        "key": key,
        "fields": bounded_fields(alert.fields),
    }


def moment_facts(moment: Moment) -> Facts:
    """Return a timeline entry as data."""
    return {
        "at": moment.at or None,
        "bound": moment.bound,
        "until": moment.until or None,
        "what": plain(moment.what),
        "class": moment.code,
        "role": moment.role,
        "node": named(moment.node),
        "ranks": list(moment.ranks),
        "count": moment.count,
    }


def alert_facts(alert: Alert) -> Facts:
    """Return an alert that belongs to no incident as data."""
    proof = alert.proof[0] if alert.proof else None
    stays = remains(alert)
    return {
        "class": alert.code,
        "severity": alert.severity,
        "role": alert.role,
        "title": plain(alert.title),
        "text": plain(alert.text),
        "rank": alert.rank,
        "node": named(alert.node),
        "gpu": alert.gpu,
        "first_seen": None if undated(alert) else alert.first or None,
        "last_seen": None if undated(alert) else alert.last or None,
        "timed": alert.timed,
        "doubt": plain(alert.doubt) or None,
        "recovered": alert.recovered and not stays,
        "recovered_at": None if stays else alert.recovered_at,
        "recovered_step": None if stays else alert.recovered_step,
        "count": alert.count,
        "evidence": [] if proof is None else [proof_facts(alert, proof)],
    }


def named(text: str | None) -> str | None:
    """Return a sanitized name; None if empty or unknown."""
    return plain(text) if text else None


def as_plain(value: str | float) -> str | float:
    """Return a field's value, sanitized if it is text."""
    return plain(value) if isinstance(value, str) else value
