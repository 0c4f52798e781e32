"""Alerts that later lines of the same log repair, read from the files of an ended job."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import Reader
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.runs.files.excerpts.around import Around

MAX_READ_ALERTS = 100
"""Alerts whose logs are read again by one call."""


def with_recovered(
    alerts: Iterable[Alert],
    read: Reader,
    may_recover: Callable[[Alert], bool],
    has_recovered: Callable[[Alert, Around], bool],
) -> list[Alert]:
    """Return the alerts; those whose logs show a recovery become `info`.

    Args:
        alerts: Of an ended job.
        read: Returns the lines around an alert, None if they are unknown.
        may_recover: Whether an alert's log is worth reading; it is called for each alert.
        has_recovered: Whether the lines around such an alert show that it recovered.
    """
    left = MAX_READ_ALERTS
    found = []
    for alert in alerts:
        around = None
        if left > 0 and may_recover(alert):
            left -= 1
            around = read(alert)
        if around is not None and has_recovered(alert, around):
            found.append(structs.replace(alert, severity="info", recovered=True))
        else:
            found.append(alert)
    return found
