"""Selects the lines and values that prove an incident, and determines whether its time is known."""

from __future__ import annotations

from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident

MAX_EVIDENCE = 40
"""Most proofs per incident, the cause's first; the timeline counts the others."""


def evidence(incident: Incident) -> list[tuple[Alert, Proof]]:
    """Return the incident's proofs, each with its alert: all of the cause, then one per class of the others.

    The exception that ended the cause's rank comes before its end. Of the other alerts, those of the cause's
    rank come first, remarks last; at most `MAX_EVIDENCE`, and no line twice.
    """
    cause = incident.cause
    chosen: list[tuple[Alert, Proof]] = []
    kinds: set[str] = set()
    others = [alert for alert in incident.alerts if cause is None or alert.id != cause.id]
    if cause is not None:
        raised = raised_by(cause, others)
        if raised is not None:
            kinds.add(raised.code)
            chosen += [(raised, proof) for proof in raised.proof[:1]]
        chosen += [(cause, proof) for proof in cause.proof]
        others.sort(key=lambda each: (each.is_remark, cause.rank is None or each.rank != cause.rank))
    for alert in others:
        if alert.code not in kinds:
            kinds.add(alert.code)
            chosen += [(alert, proof) for proof in alert.proof[:1]]
    once: dict[object, tuple[Alert, Proof]] = {}
    for alert, proof in chosen:
        once.setdefault(_line(proof), (alert, proof))
    return list(once.values())[:MAX_EVIDENCE]


def _line(proof: Proof) -> object:
    """Return a key that is equal for proofs with the same line or text."""
    if proof.offset is None:
        return proof.kind, proof.node, proof.text
    return proof.node, proof.file, proof.offset


def undated(alert: Alert) -> bool:
    """Return True if no time is known for an alert: neither its line nor a line near it has one."""
    return not alert.timed and alert.bound == "undated"


def undated_incident(incident: Incident) -> bool:
    """Return True if no time is known for the start of an incident."""
    cause = incident.cause
    return all(map(undated, incident.alerts)) if cause is None else undated(cause)
