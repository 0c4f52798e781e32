"""Marks training conditions that a rank reports for its job: the condition does not name the rank. Pure.

A reduced loss and the norm of all gradients are the same on every rank, and with most frameworks one rank
logs them. The number in such a line is that of the logger, not of the cause.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import structs

from gpuwatch.diagnose.model.alert import REPORTED_FOR_JOB, Alert
from gpuwatch.diagnose.model.failure_classes import (
    GENERIC_EXCEPTIONS,
    NAN_GRADIENTS,
    NAN_LOSSES,
    OF_TRAINING,
    end_weight,
    of_kinds,
)
from gpuwatch.diagnose.training.first_nan import first_nans
from gpuwatch.fleet.logs.progress import RankProgress

NAMES_RANKS = of_kinds("compares_replicas")
"""Classes of conditions that compare ranks, and thus name the odd one."""
FOLLOWS = 2
"""`end_weight` from which the end of a rank usually follows from another failure."""


def with_reporting_ranks(
    alerts: Sequence[Alert], writers: Iterable[RankProgress], sizes: Mapping[str | None, int]
) -> list[Alert]:
    """Return the alerts; those that a rank reports for its job are marked with `REPORTED_FOR_JOB`.

    A rank is the cause of such a condition if other ranks log their losses and it was the first, if it then
    raised an exception or ended by itself, or if it is the only rank. A NaN gradient becomes `info` if one
    rank's NaN loss came first.

    Args:
        alerts: Of running jobs, or of one ended job.
        writers: What the ranks logged.
        sizes: Job -> number of ranks, if known.
    """
    asked = [alert for alert in alerts if _is_condition(alert)]
    if not asked:
        return list(alerts)
    jobs = {alert.job for alert in asked}
    near = [each for each in writers if each.job in jobs or None in (each.job, *jobs)]
    losses = [each for each in near if each.rank is not None and _logs_losses(each)]
    first = {job: nan.writer.rank for job, nan in first_nans(near).items() if nan.alone}
    ids = {
        alert.id
        for alert in asked
        if sizes.get(alert.job) != 1 and not _is_cause(alert, alerts, losses, first)
    }
    begun = {alert.job for alert in asked if alert in NAN_LOSSES and first.get(alert.job) == alert.rank}
    return [_marked(_without_spread(alert, begun), ids) for alert in alerts]


def _marked(alert: Alert, ids: Collection[str]) -> Alert:
    return structs.replace(alert, fields={**alert.fields, REPORTED_FOR_JOB: 1}) if alert.id in ids else alert


def _without_spread(alert: Alert, begun: Collection[str | None]) -> Alert:
    """Return the alert; a NaN gradient becomes `info` if one rank's NaN loss came first.

    `begun`: the jobs in which the rank of the first NaN loss is known. One whose line states the rank stays.
    """
    if alert not in NAN_GRADIENTS or alert.job not in begun or alert.rank_from == "field":
        return alert
    return structs.replace(alert, severity="info", role="hint")


def _is_condition(alert: Alert) -> bool:
    """Return True for a condition of a loss, gradient or step time, if its rank is only that of its log.

    A line that names a rank in its text ("rank 5: found NaN in local forward loss") is about that rank.
    """
    named = alert.rank is None or alert.rank_from == "field" or alert in NAMES_RANKS
    return alert in OF_TRAINING and not named


def _logs_losses(writer: RankProgress) -> bool:
    return any(
        step.loss is not None and math.isfinite(step.loss) for step in chain(writer.steps, writer.past)
    )


def _is_cause(
    alert: Alert,
    alerts: Collection[Alert],
    losses: Iterable[RankProgress],
    first: Mapping[str | None, int | None],
) -> bool:
    same_job = (alert.job, None)
    if any(_ended_by_itself(each) and each.rank == alert.rank and each.job in same_job for each in alerts):
        return True
    others = {each.rank for each in losses if None in (alert.job, each.job) or each.job == alert.job}
    if not others - {alert.rank}:
        return False
    known = [first[job] for job in (alert.job, None) if job in first]
    if alert in NAN_LOSSES and known:
        return known[0] == alert.rank
    return not any(
        each.code == alert.code and each.rank not in (None, alert.rank) and each.job == alert.job
        for each in alerts
    )


def _ended_by_itself(alert: Alert) -> bool:
    return alert in GENERIC_EXCEPTIONS or end_weight(alert, FOLLOWS) < FOLLOWS
