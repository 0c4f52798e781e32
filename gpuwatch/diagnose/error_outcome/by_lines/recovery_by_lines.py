"""Lowers the severity of errors below which the same log shows regular work or a normal end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from gpuwatch.agent.logs.lines.levels import level
from gpuwatch.diagnose.error_outcome.by_lines import later_lines, regular_end
from gpuwatch.diagnose.error_outcome.recovery_by_steps import (
    BUFFER_BYTES,
    PROOF_STEPS,
    Recovery,
    ends_process,
    may_recover,
    softened,
)
from gpuwatch.diagnose.error_outcome.refutation import CATCHABLE
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import EXITS, LAUNCHER, TIMEOUTS, UNEXPLAINED, of_kinds
from gpuwatch.runs.files.excerpts.around import Around

MAX_ERRORS = 100
"""Most errors that are examined; with more, many ranks failed, and none is examined."""
PROVOKED = of_kinds("provoked_by_tests")
"""Classes that a passed test below them shows to be provoked, although the steps end at them."""
Reader: TypeAlias = Callable[[Alert], Around | None]
"""A function that returns the lines around the log line of an alert; None: unknown."""


class Judge(Protocol):
    """A function that judges an error by the lines of its file, as `outlived` does."""

    def __call__(
        self, alert: Alert, around: Around, least: int, *, own_file: bool, stopped: bool
    ) -> Recovery | None:
        """Return how the program continued; None: its lines do not show it. Arguments as for `outlived`."""
        ...


def with_later_lines(
    alerts: Sequence[Alert], read: Reader, files: Iterable[str], tracks: Sequence[StepTrack] = ()
) -> list[Alert]:
    """Return the alerts; errors that the lines below them show to be outlived become `info` or warnings.

    Args:
        alerts: The alerts, with the severities that later steps gave them.
        read: Returns the lines around an alert; None: unknown.
        files: Names of the logs that belong to one rank alone.
        tracks: The steps that ranks logged.
    """
    return with_recoveries(alerts, recoveries(alerts, read, files, tracks, outlived))


def recoveries(
    alerts: Sequence[Alert],
    read: Reader,
    files: Iterable[str],
    tracks: Sequence[StepTrack],
    judge: Judge,
) -> dict[str, Recovery]:
    """Return alert id -> how the program continued after it; arguments as in `with_later_lines`.

    `judge`: `outlived`, or a version that caches its results.
    """
    own = frozenset(files)
    found: dict[str, Recovery] = {}
    robust: set[str | None] = set()
    ended = any(alert.severity in GRAVE and _ends_work(alert) for alert in alerts)
    trains = {track.file for track in tracks if track.marks}
    for alert, around in _read(unsettled(alerts), read):
        file = alert.proof[0].file
        least = later_lines.MIN_LINES_OF_SURVIVOR if file in robust else later_lines.MIN_LINES_BELOW
        recovery = judge(alert, around, least, own_file=file in own, stopped=steps_end(alert, tracks))
        if recovery is None and not ended and may_be_caught(alert):
            texts = [proof.text for proof in alert.proof]
            in_order = regular_end.ended_in_order(around, texts, trains=file in trains)
            recovery = Recovery(None, None, finished=True) if in_order else None
        if recovery is not None:
            found[alert.id] = recovery
            robust.add(file)
    return found


def with_recoveries(alerts: Sequence[Alert], found: Mapping[str, Recovery]) -> list[Alert]:
    """Return all alerts; those with a recovery in `found` (alert id -> recovery) get a lower severity.

    If another process of the job died, a recovery counts only if its program finished.
    """
    left = [alert for alert in alerts if alert.severity in GRAVE and alert.id not in found]
    dead = {alert.job for alert in left if _ends_work(alert)}
    return [_judged(alert, found.get(alert.id), _is_of_any(alert.job, dead)) for alert in alerts]


def unsettled(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the errors, then the warnings, whose severity the lines below them may lower.

    At most MAX_ERRORS in all; none if there are more errors than that.
    """
    grave = [alert for alert in alerts if alert.severity in GRAVE and may_recover(alert)]
    if len(grave) > MAX_ERRORS:
        return []
    warnings = [alert for alert in alerts if alert.severity == "warning" and may_recover(alert)]
    return grave + warnings[: MAX_ERRORS - len(grave)]


def outlived(alert: Alert, around: Around, least: int, *, own_file: bool, stopped: bool) -> Recovery | None:
    """Return how the program of an error continued, by the lines of its file; None: they do not show it.

    Args:
        alert: An error.
        around: The lines of its file.
        least: Lines of work that must stand below it.
        own_file: No other rank writes to the file.
        stopped: The steps of a training end at the error: what else is printed below may be another program.
    """
    tests = not stopped or alert in PROVOKED
    passed = regular_end.passes(around, tests=tests, died=_died(alert, around, stopped=stopped))
    if passed or later_lines.reaches_total(around):
        return Recovery(None, None, finished=True, staged=regular_end.is_test_run(around))
    anew = later_lines.starts_anew(around)
    anew |= alert.rank is None and later_lines.searches_on(around, alert.proof[0].text)
    if anew or stopped:
        return Recovery(None, None, finished=False) if anew else None
    rank = None if own_file else alert.rank
    if ran_to_its_end(alert, around, rank):
        return Recovery(None, None, finished=True)
    if not may_be_caught(alert):
        overcome = alert in UNEXPLAINED and _is_overcome(alert, around)
        return Recovery(None, None, finished=False) if overcome else None
    if later_lines.breaks_off(around, rank) or later_lines.from_main(around):
        return None
    if later_lines.finishes(around):
        return Recovery(None, None, finished=True)
    fatal = ends_process(alert) or later_lines.uncaught(around) is not None
    buffered = fatal and around.below_bytes <= BUFFER_BYTES
    going = later_lines.works_on(around, rank, least) and not later_lines.is_glued(around)
    if later_lines.announces_fallback(around):
        going |= later_lines.counts_on(around, rank, later_lines.MIN_COUNTED_LINES)
    if going or _is_overcome(alert, around) or (not buffered and later_lines.counts_on(around, rank)):
        return Recovery(None, None, finished=False)
    return None


def _is_overcome(alert: Alert, around: Around) -> bool:
    """Return True if a later attempt succeeded, or the server answered later requests."""
    return later_lines.succeeds_later(around) or later_lines.serves_on(around, alert.proof[0].text)


def _died(alert: Alert, around: Around, *, stopped: bool) -> bool:
    """Return True if the error ended its process, by the lines of its file.

    `stopped`: the steps of a training end at the error; an exit status of 0 below it is another program's.
    """
    ended = stopped or _ends_work(alert) or later_lines.from_main(around)
    return ended and not later_lines.works_on(around, None) and not later_lines.reports_end(around)


def ran_to_its_end(alert: Alert, around: Around, rank: int | None) -> bool:
    """Return True if the work of a rank continued below an error and the log ends with a normal end.

    For a symptom (what survivors report about another rank) the work of any rank counts: the job went on
    without that rank or with it again. `rank` None: all lines.
    """
    who = None if alert.role == "echo" else rank
    return later_lines.works_on(around, who) and later_lines.finishes(around)


def steps_end(alert: Alert, tracks: Iterable[StepTrack]) -> bool:
    """Return True if PROOF_STEPS training steps or more are above an error in its file, and none is below it.

    A step of unknown offset counts as above.
    """
    proof, offset = alert.proof[0], last_offset(alert)
    marks = [
        mark.offset
        for track in tracks
        if track.file == proof.file
        for mark in track.marks
        if mark.offset != offset
    ]
    known = [each for each in marks if each is not None]
    return len(marks) >= PROOF_STEPS and bool(known) and max(known) < offset


def may_be_caught(alert: Alert) -> bool:
    """Return True if a program can survive the error; an error logged at level WARNING was caught."""
    return alert in CATCHABLE or level(alert.proof[0].text) == "warning"


def _read(alerts: Iterable[Alert], read: Reader) -> Iterable[tuple[Alert, Around]]:
    for alert in sorted(alerts, key=last_offset):
        around = read(alert)
        if around is not None:
            yield alert, around


def last_offset(alert: Alert) -> int:
    """Return the offset of an alert's newest line in the file of its first proof (bytes)."""
    return max(alert.proof[0].offset or 0, alert.last_offset or 0)


def _ends_work(alert: Alert) -> bool:
    return alert in TIMEOUTS or alert in EXITS or alert in LAUNCHER


def _is_of_any(job: str | None, jobs: Collection[str | None]) -> bool:
    """Return True if `job` may be one of `jobs`; on either side None (unknown) may be any job."""
    return job in jobs or None in jobs or (job is None and bool(jobs))


def _judged(alert: Alert, recovery: Recovery | None, dead: bool) -> Alert:
    if recovery is None or (dead and not recovery.finished):
        return alert
    return softened(alert, recovery)
