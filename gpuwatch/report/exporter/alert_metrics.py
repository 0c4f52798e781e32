"""Alerts and incidents as metrics."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.link.prometheus.series.tier_series import MetricFamily
from gpuwatch.report.delivery.sender import ReceiverStatus
from gpuwatch.report.exporter.page import MetricsPage, labels
from gpuwatch.report.output.fair_order import in_turn

MAX_ALERTS_SHOWN = 2_000
"""Maximum number of firing alerts with their own labels: most severe and newest first, nodes in turn.

The counts by severity include all alerts.
"""
MAX_INCIDENTS_SHOWN = 200

ALERTS = MetricFamily(
    "gpuwatch_alerts", "gauge", "Firing alerts that are not silenced or acknowledged, by severity."
)
ALERT = MetricFamily("gpuwatch_alert_firing", "gauge", "1: this alert fires.")
INCIDENTS = MetricFamily("gpuwatch_incidents", "gauge", "Active incidents, by severity.")
INCIDENTS_SEEN = MetricFamily(
    "gpuwatch_incidents_seen_total", "counter", "Incidents since gpuwatch was started."
)
INCIDENT = MetricFamily(
    "gpuwatch_incident_active", "gauge", "1: this incident is active; its root cause in labels."
)
INCIDENT_START = MetricFamily(
    "gpuwatch_incident_start_timestamp_seconds", "gauge", "Unix time of the root cause of an incident."
)
INCIDENT_RANKS = MetricFamily(
    "gpuwatch_incident_followers", "gauge", "Ranks (nodes, if no ranks are known) affected by the root cause."
)
RECEIVER_UP = MetricFamily(
    "gpuwatch_alert_receiver_up", "gauge", "1: the receiver accepted the newest message."
)
WAITING_FOR = MetricFamily(
    "gpuwatch_alert_receiver_waiting_incidents",
    "gauge",
    "Incidents whose state is not yet delivered to a receiver.",
)
DELIVERED = MetricFamily(
    "gpuwatch_alert_receiver_delivered_total", "counter", "Messages that a receiver accepted."
)
LOST = MetricFamily(
    "gpuwatch_alert_receiver_lost_total", "counter", "Incidents that will never be delivered to a receiver."
)


def receiver_metrics(page: MetricsPage, receiver: ReceiverStatus) -> None:
    """Add the state of one receiver of alerts; its name contains no secret."""
    own = labels({"receiver": receiver.name})
    if page.is_new("receiver", own):
        page.put(RECEIVER_UP, own, int(not receiver.error))
        page.put(WAITING_FOR, own, receiver.waiting)
        page.put(DELIVERED, own, receiver.delivered)
        page.put(LOST, own, receiver.lost)


def alert_metrics(page: MetricsPage, book: AlertBook) -> None:
    """Add alert counts by severity, and one sample per firing alert that is not silenced or acknowledged.

    Samples over `MAX_ALERTS_SHOWN` are counted as dropped.
    """
    for severity, count in book.counts.items():
        page.put(ALERTS, f'severity="{severity}"', count)
    firing = [
        each
        for each in book.alerts.values()
        if each.state == "firing" and not each.silenced and not each.acknowledged
    ]
    firing.sort(key=lambda each: (ORDER.index(each.severity), -each.first))
    page.dropped += max(0, len(firing) - MAX_ALERTS_SHOWN)
    for alert in islice(in_turn(firing, lambda each: each.node), MAX_ALERTS_SHOWN):
        place = {"node": alert.node, "gpu": alert.gpu, "rank": alert.rank, "job": alert.job}
        own = labels({"code": alert.code, "severity": alert.severity, **place})
        if page.is_new("alert", own):
            page.put(ALERT, own, 1)


def incident_metrics(page: MetricsPage, book: AlertBook) -> None:
    """Add the metrics of active incidents; those over `MAX_INCIDENTS_SHOWN` are counted as dropped.

    The label `number` counts from 1 within a session.
    """
    active = [each for each in book.incidents if not each.over]
    counted = Counter(each.severity for each in active)
    for severity in ORDER:
        page.put(INCIDENTS, f'severity="{severity}"', counted[severity])
    page.put(INCIDENTS_SEEN, "", max((each.number for each in book.incidents), default=0))
    page.dropped += max(0, len(active) - MAX_INCIDENTS_SHOWN)
    for incident in islice(in_turn(active, lambda each: each.node), MAX_INCIDENTS_SHOWN):
        place = {"node": incident.node, "gpu": incident.gpu, "rank": incident.rank, "job": incident.job}
        about = {"number": incident.number, "class": incident.code, "severity": incident.severity}
        own = labels({**about, **place, "confidence": incident.confidence})
        page.put(INCIDENT, own, 1)
        page.put(INCIDENT_START, f'number="{incident.number}"', incident.first or None)
        page.put(INCIDENT_RANKS, f'number="{incident.number}"', incident.followers)
