"""Logged exceptions, and lines about the end, of a living process: warnings until their outcome is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome import later_lines
from gpuwatch.diagnose.error_outcome.observed_end import is_observed
from gpuwatch.diagnose.error_outcome.recovery_by_lines import may_be_caught
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import OWN_LOG, Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import EXITS, LAUNCHER, TIMEOUTS
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.runs.files.around import Around

ENDS = EXITS | LAUNCHER | TIMEOUTS
UNDECIDED_S = 60.0
"""Seconds without a step after an exception until a living rank counts as stopped."""
ANSWER_S = 3.0
"""Seconds in which a node returns the lines around an error."""
LISTED_S = 18.0
"""Seconds after a line about the end of a rank until its node's list of processes has refuted it."""
END_S = 5.0
"""An exit may be reported up to this long before the exception that caused it (seconds)."""


def undecided(
    alerts: Sequence[Alert],
    places: Iterable[RankPlace],
    tracks: Sequence[StepTrack],
    read: Callable[[Alert], Around | None],
    wall: float,
) -> frozenset[str]:
    """Return the ids of exceptions of which it is not known yet whether the program goes on.

    These were logged, not raised to the end of the program, less than UNDECIDED_S ago, and the process of the
    rank lives. So does a rank whose own log has a line about its end, such as a sample of generated text: no
    process logs that it was killed.

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
        and wall < alert.last + LISTED_S
        and not any(_may_be_its_end(end, alert) for end in ends)
    ) | frozenset(
        alert.id
        for alert in candidates
        if (alert.job, alert.rank) in alive
        and wall < _begin(alert, tracks) + UNDECIDED_S
        and _is_logged(alert, read(alert), wall)
        and not any(_may_be_its_end(end, alert) for end in ends)
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
    """Return when the wait began (unix seconds).

    At the alert's first line, or at the rank's newest step if that lies between the alert's first and last
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
