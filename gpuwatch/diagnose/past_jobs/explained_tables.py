"""Takes the tables of tools (`df`, `free`) as evidence of what ranks logged about the same fault. Pure.

A table beside the logs shows the state when somebody looked at it, not which rank met it, nor when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import explains


def with_tables_as_evidence(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts; an undated one of a table is a hint where a rank logged an error that explains it.

    That is an error of the same class, or of one whose `explains` lists the table's.

    The hint has the time of the first such error, and its place as far as the error names none.
    """
    ranks = [alert for alert in alerts if alert.rank is not None and not _is_of_table(alert)]
    return [_as_hint(alert, ranks) if _is_of_table(alert) else alert for alert in alerts]


def _is_of_table(alert: Alert) -> bool:
    return "told_by" in alert.fields and alert.rank is None and not alert.timed


def _as_hint(table: Alert, ranks: Iterable[Alert]) -> Alert:
    about = [
        each
        for each in ranks
        if (each.code == table.code or explains(each, table)) and _is_about(table, each)
    ]
    if not about:
        return table
    first = min(about, key=lambda each: each.first)
    return structs.replace(table, role="hint", first=first.first, last=first.first, job=first.job)


def _is_about(table: Alert, error: Alert) -> bool:
    """Return True if an error may be about the same node and the same path as a table."""
    path = table.fields.get("path")
    text = " ".join((proof := error.proof[0]).lines or (proof.text,)) if error.proof else ""
    is_there = error.node is None or table.node in (None, error.node)
    return is_there and (not path or "/" not in text or f"{path}/".replace("//", "/") in f"{text}/")
