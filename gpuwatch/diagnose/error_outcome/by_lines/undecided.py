"""Errors of living processes that count as warnings until their outcome is known. Pure.

They are logged exceptions, lines about the end of a process that runs on, and any error of a rank that logs
a step every few seconds. If an error ends its rank, the observed end follows within a second or two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median

from msgspec import structs

from gpuwatch.diagnose.error_outcome.by_lines import later_lines
from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import may_be_caught
from gpuwatch.diagnose.error_outcome.observed_end import is_observed
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import OWN_LOG, Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    LAUNCHER,
    NAMES_CULPRIT,
    SCHEDULER,
    TIMEOUTS,
    of_kinds,
)
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.runs.files.excerpts.around import Around

ENDS = EXITS | LAUNCHER | TIMEOUTS
UNDECIDED_S = 60.0
"""Seconds without a step after an exception until a living rank counts as stopped."""
ANSWER_S = 3.0
"""Seconds in which a node returns the lines around an error."""
END_REFUTED_S = 18.0
"""Seconds after which the node's list of processes refutes a log line about the end of a rank that lives."""
END_S = 5.0
"""An exit may be reported up to this long before the exception that caused it (seconds)."""
OUTCOME_WAIT_S = 6.0
"""Seconds within which a rank's later steps, or the end of its process, are received and judged."""
MAX_PERIOD_S = 2.5
"""Most seconds between two steps of a rank for its log to show in `OUTCOME_WAIT_S` that the rank goes on."""
STEPS = 10
"""Number of newest steps from which the time between two step lines is computed."""
SURVIVED = of_kinds("survived")
"""Classes of faults that a rank survives."""


def undecided(
    alerts: Sequence[Alert],
    places: Iterable[RankPlace],
    tracks: Sequence[StepTrack],
    read: Callable[[Alert], Around | None],
    wall: float,
) -> frozenset[str]:
    """Return the ids of exceptions of which it is not known yet whether the program goes on.

    The process of their rank lives, and they are less than UNDECIDED_S old. They were logged, not raised to
    the end of the program. A line about the end of a rank in its own log also counts if the rank lives: no
    process logs that it was killed, so the line may be generated text.

    Args:
        alerts: With what later steps and lines showed.
        places: Where the ranks run.
        tracks: The steps that ranks logged.
        read: Returns the lines around an error; None: its node has not answered.
        wall: Unix seconds.
    """
    candidates = [alert for alert in alerts if _may_go_on(alert)]
    stated = [alert for alert in alerts if _states_own_end(alert)]
    if not candidates and not stated:
        return frozenset()
    alive = {(place.job, place.rank) for place in places if place.pid is not None and place.until is None}
    ends = [alert for alert in alerts if alert in ENDS and alert not in stated]
    return frozenset(
        alert.id
        for alert in stated
        if (alert.job, alert.rank) in alive
        and wall < alert.last + END_REFUTED_S
        and not any(_may_be_its_end(end, alert) for end in ends)
    ) | frozenset(
        alert.id
        for alert in candidates
        if (alert.job, alert.rank) in alive
        and wall < _begin(alert, tracks) + UNDECIDED_S
        and _is_logged(alert, read(alert), wall)
        and not any(_may_be_its_end(end, alert) for end in ends)
    )


def held_lines(
    alerts: Sequence[Alert],
    places: Iterable[RankPlace],
    writers: Iterable[RankProgress],
    offset_s: float,
    wall: float,
) -> frozenset[str]:
    """Return the ids of errors in the logs of living ranks whose next step lines are still due.

    Args:
        alerts: The alerts, with the severities that later steps and lines gave them.
        places: Where the ranks run.
        writers: What the ranks logged.
        offset_s: Unix seconds minus the clock of the steps.
        wall: Unix seconds.
    """
    candidates = [alert for alert in alerts if wall < alert.last + OUTCOME_WAIT_S and _may_be_outlived(alert)]
    if not candidates:
        return frozenset()
    ends = [alert for alert in alerts if alert in ENDS and not _states_own_end(alert)]
    places, writers = list(places), list(writers)
    return frozenset(
        alert.id
        for alert in candidates
        if _lives(alert, places)
        and not any(_may_be_its_end(end, alert) for end in ends)
        and any(_stepped_before(alert, writer, offset_s) for writer in writers)
    )


def with_undecided(alerts: Iterable[Alert], ids: Collection[str]) -> list[Alert]:
    """Return the alerts, those with these ids as warnings."""
    return [structs.replace(each, severity="warning") if each.id in ids else each for each in alerts]


def _may_go_on(alert: Alert) -> bool:
    raised = any(TRACEBACK in line for proof in alert.proof[:1] for line in proof.lines)
    firing = alert.state == "firing" and alert.severity in GRAVE
    return firing and raised and alert.timed and alert.rank is not None and may_be_caught(alert)


def _states_own_end(alert: Alert) -> bool:
    """Return True for a line about a killed or crashed process in the log of the rank that it names."""
    is_line = bool(alert.proof) and alert.proof[0].kind == "line" and not alert.kernel
    own = is_line and alert.rank_from in OWN_LOG and not is_observed(alert)
    return own and alert in EXITS and alert.state == "firing" and alert.severity in GRAVE


def _begin(alert: Alert, tracks: Iterable[StepTrack]) -> float:
    """Return the time (unix seconds) from which the outcome of an alert is waited for.

    That is the alert's first line, or the rank's newest step if this lies between the alert's first and last
    line. A newest step after the last line is ignored.
    """
    own = (each for each in tracks if (each.job, each.rank) == (alert.job, alert.rank))
    steps = [mark.at for track in own for mark in track.marks[-1:] if mark.at is not None]
    return max([alert.first, *(at for at in steps if at <= alert.last)])


def _is_logged(alert: Alert, around: Around | None, wall: float) -> bool:
    """Return True if a logger wrote the traceback; also for ANSWER_S while the lines are not known yet."""
    if around is None:
        return wall < alert.last + ANSWER_S
    return later_lines.uncaught(around) is None


def _may_be_its_end(end: Alert, alert: Alert) -> bool:
    same = None in (end.job, alert.job) or end.job == alert.job
    return same and end.last >= alert.first - END_S


def _may_be_outlived(alert: Alert) -> bool:
    is_line = bool(alert.proof) and alert.proof[0].kind == "line" and not alert.kernel and alert.timed
    own = is_line and not is_observed(alert) and (alert.rank is None or alert.rank_from in OWN_LOG)
    other = alert in ENDS or alert in SCHEDULER or alert in NAMES_CULPRIT or alert in SURVIVED
    return own and not other and alert.state == "firing" and alert.severity in GRAVE


def _lives(alert: Alert, places: Collection[RankPlace]) -> bool:
    """Return True if the process of the alert's rank is listed; without a rank, those of its whole job."""
    if alert.job is None:
        return False
    own = [place for place in places if place.job == alert.job and alert.rank in (None, place.rank)]
    return bool(own) and all(place.pid is not None and place.until is None for place in own)


def _stepped_before(alert: Alert, writer: RankProgress, offset_s: float) -> bool:
    """Return True if the alert's file, or its rank, logged a step every few seconds up to the error."""
    proof = alert.proof[0]
    same_file = (writer.node, writer.file) == (proof.node, proof.file)
    same_rank = alert.rank is not None and (writer.job, writer.rank) == (alert.job, alert.rank)
    if not (same_file or same_rank) or writer.per_epoch:
        return False
    times = [step.at + offset_s for step in writer.curve()[-STEPS:] if isfinite(step.at)]
    periods = [later - earlier for earlier, later in pairwise(times)]
    if len(periods) < 2:
        return False
    period = median(periods)
    return period <= MAX_PERIOD_S and times[-1] >= alert.first - 2 * period - 1.0
