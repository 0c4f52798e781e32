"""Lowers alerts that later lines of the same log show as repaired, for an ended job."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import Reader
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.runs.files.excerpts.around import Around

MAX_READ_ALERTS = 100
"""Most alerts for which one call reads the log again."""


def with_recovered(
    alerts: Iterable[Alert],
    read: Reader,
    may_recover: Callable[[Alert], bool],
    has_recovered: Callable[[Alert, Around], bool],
) -> list[Alert]:
    """Return the alerts; those whose logs show a recovery become `info`.

    Only the first MAX_READ_ALERTS that may recover are examined.

    Args:
        alerts: The alerts of an ended job.
        read: Returns the lines around an alert, None if they are unknown.
        may_recover: Returns True if an alert's log is worth reading; called for each alert.
        has_recovered: Returns True if the lines around such an alert show that it recovered.
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
