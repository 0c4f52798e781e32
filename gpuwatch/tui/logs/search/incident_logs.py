"""Selects the logs of an incident: its evidence, the culprit's own, and those of affected ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.incidents.evidence_location import LogLocation, alert_with_line, location_of
from gpuwatch.tui.logs.data.sources import LogSource, of_job, rank_sources, with_content
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot

MAX_FOLLOWERS = 2
"""Number of affected ranks whose logs are shown: the first to report, or the silent ones of a hang."""
MAX_FILES = 8
"""Maximum number of log lines whose files are selected as evidence."""
_NAME = "incident-"


def name_of(incident: Incident) -> str:
    """Return the word that selects an incident's logs: `incident-1`."""
    return f"{_NAME}{incident.number}"


def incident_named(word: str, reported: AlertSnapshot) -> Incident | None:
    """Return the incident that a word such as `incident-1` names; None if there is none."""
    number = word.removeprefix(_NAME)
    if not (word.startswith(_NAME) and number.isdecimal()):
        return None
    return next((each for each in reported.incidents if each.number == int(number)), None)


def incident_logs(incident: Incident, sources: Sequence[LogSource]) -> list[LogSource]:
    """Return the files to read first, each once: the cause's evidence, the culprit's own, affected ranks'.

    The logs are those of at most 1 + `MAX_FOLLOWERS` ranks. Kernel and launcher logs are included if they
    contain the evidence, even if their node no longer lists them.
    """
    found: dict[LogSource, None] = {}
    for spot in islice(_evidence(incident), MAX_FILES):
        listed = [each for each in sources if (each.node, each.file) == (spot.node, spot.file)]
        found |= dict.fromkeys(listed or [LogSource(spot.node, spot.file)])
    ranks = [*_suspects(incident), *(alert.rank for alert in _followers(incident))]
    for rank in [rank for rank in dict.fromkeys(ranks) if rank is not None][: 1 + MAX_FOLLOWERS]:
        found |= dict.fromkeys(with_content(rank_sources(of_job(sources, incident.job), rank)))
    return list(found)


def _evidence(incident: Incident) -> Iterator[LogLocation]:
    """Yield where the cause, and root and first alerts, are logged, in the order of the incident's alerts.

    Alerts of ranks other than the incident's are left out, except the cause.
    """
    for alert in incident.alerts:
        own = alert.rank in (None, incident.rank) and alert.role in ("root", "first")
        if (own or alert == incident.cause) and (spot := location_of(alert)):
            yield spot


def _suspects(incident: Incident) -> list[int]:
    return list(incident.silent) if incident.rank is None else [incident.rank]


def _followers(incident: Incident) -> list[Alert]:
    """Return the alerts of ranks other than the incident's, the earliest first.

    Hints and the cause are left out.
    """
    others = [alert for alert in incident.alerts if alert.rank not in (None, incident.rank)]
    reports = [alert for alert in others if alert.role != "hint" and alert != incident.cause]
    return sorted(reports, key=lambda alert: alert.first)


class Course(Struct, frozen=True):
    """The places of the lines of an incident's cause and of its first affected rank, for a merged view."""

    cause: LogLocation
    echo: LogLocation | None
    """The first line of an affected rank after the cause; None: there is none yet."""


def course_of(incident: Incident) -> Course | None:
    """Return the places of the cause and of the first affected rank; None: no log line proves the cause."""
    proving = alert_with_line(incident)
    cause = location_of(proving) if proving else None
    if cause is None:
        return None
    spots = [spot for alert in _followers(incident) if (spot := location_of(alert))]
    later = [spot for spot in spots if spot.at > cause.at]
    return Course(cause, min(later, key=lambda spot: spot.at, default=None))
