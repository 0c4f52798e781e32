"""Builds the message for each kind of receiver: an HTTP request, or a command's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from email.header import Header

import msgspec

from gpuwatch import __version__
from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.link.stream.bounded_http import split_login
from gpuwatch.report.delivery.incident_texts import filled, markdown, rfc3339, slack_text
from gpuwatch.report.delivery.ledger import LedgerEntry, Status

ALERT_NAME = "GpuwatchIncident"
ALIVE_S = 300.0
"""Seconds after which an Alertmanager ends an alert that is not sent again."""
JSON = "application/json"
PRIORITY = {"critical": "5", "error": "4", "warning": "3"}
"""Severity -> the priority in ntfy."""


@dataclass(frozen=True, repr=False)
class Post:
    """An HTTP request. It has no `repr`, because URL and headers may contain secrets."""

    url: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def post(spec: ReceiverSpec, body: bytes, kind: str, path: str = "", **more: str) -> Post:
    """Return a request to a receiver; user and password in the URL become a header."""
    bare, login = split_login(str(spec.target))
    headers = {"Content-Type": kind, "User-Agent": f"gpuwatch/{__version__}", **more, **login, **spec.headers}
    return Post(bare.rstrip("/") + path if path else bare, body, headers)


def status_for_alertmanager(spec: ReceiverSpec, entry: LedgerEntry, wall: float, firing_s: float) -> Status:
    """Return the status to send to an Alertmanager: firing for at least `firing_s` seconds.

    An Alertmanager sends no notification for an alert that is resolved before its first one.

    `wall`: unix seconds.
    """
    accepted = entry.accepted.get(spec.key)
    if entry.over_at is not None and (
        accepted is None or (accepted.status == "firing" and wall - accepted.at < firing_s)
    ):
        return "firing"
    return entry.status


def alertmanager_post(
    spec: ReceiverSpec, entries: Sequence[tuple[LedgerEntry, Status]], source: str, wall: float
) -> Post:
    """Return a request with these incidents for an Alertmanager. `wall`: unix seconds.

    Firing ones end after `ALIVE_S` unless they are repeated; those of an earlier, lower severity end now.
    """
    alerts = []
    for entry, status in entries:
        ends = wall + ALIVE_S if status == "firing" or entry.over_at is None else entry.over_at
        alerts.append(_alert(entry, entry.severity, source, ends))
        alerts += [_alert(entry, earlier, source, wall) for earlier in entry.earlier]
    return post(spec, msgspec.json.encode(alerts), JSON, "/api/v2/alerts")


def _alert(entry: LedgerEntry, severity: str, source: str, ends: float) -> dict[str, object]:
    """Return an alert for Alertmanager; `ends`: unix seconds.

    Labels identify the incident and never change; later findings are annotations.
    """
    texts = entry.texts
    labels = {"alertname": ALERT_NAME, "incident": entry.fingerprint, "severity": severity, "source": source}
    if entry.place[0] is not None:
        labels["training_job"] = entry.place[0]
    about = {
        "summary": texts.headline,
        "description": "\n".join(texts.steps),
        "class": texts.code,
        "node": texts.node,
        "gpu": texts.gpu,
        "rank": texts.rank,
        "confidence": texts.confidence,
        "because": texts.because,
    }
    return {
        "labels": labels,
        "annotations": {name: str(value) for name, value in about.items() if value not in (None, "")},
        "startsAt": rfc3339(min(entry.first, ends)),
        "endsAt": rfc3339(ends),
    }


def facts_of(entry: LedgerEntry, source: str) -> dict[str, object]:
    """Return an incident as the JSON object for webhooks and commands; all keys are always present."""
    texts = entry.texts
    return {
        "gpuwatch": __version__,
        "status": entry.status,
        "incident": entry.fingerprint,
        "source": source,
        "headline": texts.headline,
        "severity": entry.severity,
        "class": texts.code,
        "job": texts.job,
        "node": texts.node,
        "gpu": texts.gpu,
        "rank": texts.rank,
        "followers": texts.followers,
        "confidence": texts.confidence,
        "because": texts.because,
        "do": list(texts.steps),
        "first_seen": entry.first,
        "resolved_at": entry.over_at,
    }


def placeholders(entry: LedgerEntry, source: str) -> dict[str, str]:
    """Return placeholder -> text for request bodies; unknown values are empty."""
    texts = entry.texts
    found = {
        "status": entry.status,
        "incident": entry.fingerprint,
        "headline": texts.headline,
        "severity": entry.severity,
        "class": texts.code,
        "node": texts.node or "",
        "gpu": "" if texts.gpu is None else str(texts.gpu),
        "rank": "" if texts.rank is None else str(texts.rank),
        "job": texts.job or "",
        "confidence": texts.confidence,
        "first_seen": rfc3339(entry.first),
        "resolved_at": "" if entry.over_at is None else rfc3339(entry.over_at),
        "source": source,
        "steps": "\n".join(f"{number}. {step}" for number, step in enumerate(texts.steps, 1)),
    }
    return {**found, "markdown": markdown(texts, found)}


def incident_post(spec: ReceiverSpec, entry: LedgerEntry, source: str) -> Post:
    """Return a request with one incident, in the format of the webhook or chat."""
    found = placeholders(entry, source)
    if spec.kind == "slack":
        return post(spec, msgspec.json.encode({"text": slack_text(entry.texts, found)}), JSON)
    if spec.kind == "ntfy":
        title = f"{found['status']}: {entry.texts.headline}"[:200]
        headers = {
            "Title": title if title.isascii() else Header(title, "utf-8", maxlinelen=10_000).encode(),
            "Priority": PRIORITY[entry.severity] if entry.status == "firing" else "3",
            "Tags": "rotating_light" if entry.status == "firing" else "white_check_mark",
            "Markdown": "yes",
        }
        return post(spec, found["markdown"].encode(), "text/markdown; charset=utf-8", **headers)
    if spec.body is None:
        return post(spec, msgspec.json.encode(facts_of(entry, source)), JSON)
    body = {name: filled(text, found) for name, text in spec.body.items()}
    return post(spec, msgspec.json.encode(body), JSON)
