"""Decides which alerts of a group can be its root cause.

Example: rank 5's ECC error at 10:00:00, rank 2's NCCL watchdog timeout at 10:10:01, and the launcher's report
at 10:10:03 that rank 2 ended. The timeout goes by the row "time-out", as a collective that times out waits
for another rank, and the end of rank 2 by the row "end after a wait", as rank 2 had entered that collective.
The ECC error is left.

A rule about one more kind of consequence is one more row in `EXCLUSIONS`, with its example as a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from gpuwatch.diagnose.alerts.deduplication.unexplained import AFTERMATH_S
from gpuwatch.diagnose.alerts.rank_ends import SHELL_SIGNAL
from gpuwatch.diagnose.incidents.causes.cause_precedence import CausePrecedence, precedence
from gpuwatch.diagnose.incidents.causes.explaining_error import MILD_ENDS, SAME_MOMENT_S, is_own_error
from gpuwatch.diagnose.incidents.causes.grouping import is_precursor
from gpuwatch.diagnose.missing_ranks.unwatched_ends import CODE as UNWATCHED_END
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import (
    ABOUT_ANOTHER,
    EXIT_CODES,
    EXITS,
    GENERIC_EXCEPTIONS,
    LAUNCHER,
    NAMES_CULPRIT,
    PEER_CONNECTION_ERRORS,
    SIGNALLED,
    TIMEOUTS,
    UNEXPLAINED,
    end_weight,
    of_kinds,
)
from gpuwatch.diagnose.model.timing import onset
from gpuwatch.diagnose.sources.absent_ranks import absent_ranks

BARRIER = of_kinds("monitored_barrier")
ALIVE_S = 60.0
"""Seconds after another error; a rank with own errors later than this survived that error."""

UNDATED_S = 30.0
"""Seconds by which a line without a time may be read later than it was written."""
ENTERED_S = 5.0
"""Seconds after the end of a rank within which the others have entered the collective that waits for it."""


@dataclass(frozen=True)
class Candidates:
    """Alerts of one group that no earlier stage excluded, with derived facts on which exclusions depend."""

    alerts: Sequence[Alert]
    """All alerts of the group."""
    left: Sequence[Alert]
    limits: Mapping[str, tuple[float, float]]
    """Alert id -> earliest and latest time of the alert's first line (unix seconds)."""

    @cached_property
    def timeouts(self) -> list[Alert]:
        return [alert for alert in self.alerts if alert in TIMEOUTS]

    @cached_property
    def aftermath(self) -> float:
        """When the consequences of the first timeout begin (unix seconds); infinite without a timeout."""
        return min((alert.first for alert in self.timeouts), default=math.inf) + AFTERMATH_S

    @cached_property
    def entered(self) -> dict[int, float]:
        """Rank -> when the rank entered the collective that timed out (unix seconds)."""
        entered: dict[int, float] = {}
        for alert in self.timeouts:
            if alert.rank is not None:
                entered[alert.rank] = min(onset(alert), entered.get(alert.rank, alert.first))
        return entered

    @cached_property
    def only_lost_peers(self) -> set[int | None]:
        """Ranks that report nothing but unreachable peers."""
        lost = {alert.rank for alert in self.alerts if alert in PEER_CONNECTION_ERRORS} - {None}
        own = {a.rank for a in self.left if a not in PEER_CONNECTION_ERRORS and a not in MILD_ENDS}
        return lost - own

    @cached_property
    def alive(self) -> dict[int, float]:
        """Rank -> time of the rank's last own error, among lines that have a time (unix seconds)."""
        alive: dict[int, float] = {}
        for alert in self.left:
            own = alert not in EXITS | LAUNCHER | PEER_CONNECTION_ERRORS | ABOUT_ANOTHER
            if alert.rank is not None and alert.timed and own and not alert.kernel:
                alive[alert.rank] = max(alert.last, alive.get(alert.rank, alert.last))
        return alive

    @cached_property
    def other_rank_failed(self) -> bool:
        """True if a rank has an error of its own and was not stopped by its launcher."""
        signalled = {alert.rank for alert in self.left if alert in SIGNALLED} | {None}
        return any(
            alert.rank not in signalled and precedence(alert) < CausePrecedence.LOST_PEER
            for alert in self.left
        )

    @cached_property
    def raised(self) -> dict[int, float]:
        """Rank -> since when an end elsewhere can follow from what the rank logged about itself.

        The time is that of its first exception or error in unix seconds, earlier by `UNDATED_S` if it is
        undated.
        """
        raised: dict[int, float] = {}
        for alert in self.left:
            if alert.rank is not None and (alert in GENERIC_EXCEPTIONS or is_own_error(alert)):
                latest = self.limits[alert.id][1] - (0.0 if alert.timed else UNDATED_S)
                raised[alert.rank] = min(latest, raised.get(alert.rank, math.inf))
        return raised

    @cached_property
    def spoke(self) -> set[int | None]:
        """Ranks that logged a line which may give the reason for their end."""
        consequences = EXITS | TIMEOUTS | PEER_CONNECTION_ERRORS
        return {a.rank for a in self.alerts if a.severity in GRAVE and a not in consequences}

    @cached_property
    def unplaced(self) -> set[tuple[str | None, str | None]]:
        """Node and path of the files with an error of unknown rank, so that any of its ranks may be meant."""
        found = [a for a in self.alerts if a.rank is None and (a in GENERIC_EXCEPTIONS or is_own_error(a))]
        return {(alert.proof[0].node, alert.proof[0].file) for alert in found}

    def rank_of(self, alert: Alert) -> int | None:
        """Return the alert's rank.

        For a launcher's line that has only a pid, the rank of another line with that pid. None: unknown.
        """
        return alert.rank if alert.rank is not None else self._rank_of_pid.get(alert.fields.get("pid", ""))

    @cached_property
    def _rank_of_pid(self) -> dict[object, int]:
        return {a.fields["pid"]: a.rank for a in self.alerts if "pid" in a.fields and a.rank is not None}


class Exclusion(Struct, frozen=True):
    """A row of `EXCLUSIONS`: a reason why an alert is a consequence or a symptom, and thus no root cause."""

    name: str
    applies: Callable[[Alert, Candidates], bool]
    spares_named: bool = False
    """True if alerts whose line names the culprit stay candidates although the row applies."""


def listed(alert: Alert) -> tuple[int, ...]:
    """Return the ranks that the line itself names as the cause; empty: none."""
    ranks = absent_ranks(alert)
    if ranks:
        return ranks
    if alert in BARRIER and _barrier_reporter(alert) in (0, None):
        peer = alert.fields.get("peer_rank")
        return (peer,) if isinstance(peer, int) else ()
    return ()


def _barrier_reporter(alert: Alert) -> object:
    """Return the rank that reports a monitored barrier; None: unknown."""
    return alert.fields.get("group_rank") if alert.rank is None else alert.rank


def _is_mild(alert: Alert, _among: Candidates) -> bool:
    """Return True if the alert is no error and names no culprit."""
    return alert.severity not in ("error", "critical") and alert not in NAMES_CULPRIT


def _is_other_sides_barrier(alert: Alert, _among: Candidates) -> bool:
    """Return True for a monitored barrier's report that lists no ranks, by a rank other than 0.

    Only rank 0 knows who is missing.
    """
    return alert in BARRIER and _barrier_reporter(alert) not in (0, None) and not listed(alert)


def _is_torn_down(alert: Alert, among: Candidates) -> bool:
    """Return True for an abort below a timeout or lost peer in the same file, as a watchdog causes."""
    if end_weight(alert) < 2 or alert.kernel:
        return False
    proof = alert.proof[0]
    return any(
        (each in TIMEOUTS or (each in PEER_CONNECTION_ERRORS and each.role == "echo"))
        and (each.proof[0].node, each.proof[0].file) == (proof.node, proof.file)
        and (each.proof[0].offset or 0) < (proof.offset or 0)
        and (alert.rank is None or each.rank is None or alert.rank == each.rank)
        for each in among.alerts
    )


def _is_below_wait(alert: Alert, among: Candidates) -> bool:
    """Return True for the end of an unknown rank below a timeout in its file, without a cause above it."""
    if alert not in MILD_ENDS or alert.rank is not None or not alert.proof:
        return False
    proof = alert.proof[0]
    here = [
        each
        for each in among.alerts
        if (each.proof[0].node, each.proof[0].file) == (proof.node, proof.file)
        and (each.proof[0].offset or 0) < (proof.offset or 0)
    ]
    return any(each in TIMEOUTS for each in here) and not any(map(is_own_error, here))


def _is_signalled(alert: Alert, among: Candidates) -> bool:
    return alert in SIGNALLED and alert.rank is not None and among.other_rank_failed


def _ends_after_wait(alert: Alert, among: Candidates) -> bool:
    """Return True for the end of a rank that waited in the collective or only lost its peers."""
    rank = among.rank_of(alert)
    return alert in EXITS and (rank in among.entered or rank in among.only_lost_peers)


def _was_survived(alert: Alert, among: Candidates) -> bool:
    """Return True if the alert's rank went on: it entered the hung collective, or logged later errors."""
    if alert.rank is None or alert.kernel:
        return False
    waits = alert.rank in among.entered and alert.last < among.entered[alert.rank] - SAME_MOMENT_S
    return waits or among.alive.get(alert.rank, alert.last) - alert.last > ALIVE_S


def _ends_mute(alert: Alert, among: Candidates) -> bool:
    """Return True for an end of which only the exit code is known, if another rank logged its own error.

    Example: ranks 0 and 2 exit with 1, and the launcher's log has `[rank3]: KeyError`. An error that came
    later than an end, by its own time, is no reason for it.
    """
    status = alert.fields.get("exitcode")
    if alert not in EXIT_CODES or alert.rank is None or alert.rank in among.spoke or not _is_code(status):
        return False
    if (alert.proof[0].node, alert.proof[0].file) in among.unplaced:
        return False
    latest = alert.first + SAME_MOMENT_S + alert.error_s
    return any(at <= latest for rank, at in among.raised.items() if rank != alert.rank)


def _ends_with_waits(alert: Alert, among: Candidates) -> bool:
    """Return True for an end of which only the exit code is known, long after others entered a collective.

    Example: rank 2 exits with 1 in the second in which ranks 0 and 1 time out after 600 s. They waited for
    something of 600 s before; rank 2's own time-out may not be read yet.
    """
    status = alert.fields.get("exitcode")
    if alert not in EXIT_CODES or alert.rank in among.spoke or not _is_code(status):
        return False
    others = [at for rank, at in among.entered.items() if rank != alert.rank]
    waited_s = min((each.first for each in among.timeouts), default=0.0) - max(others, default=0.0)
    return len(others) > 1 and alert.first - max(others) > max(ENTERED_S, waited_s / 2)


def _is_outage(alert: Alert, among: Candidates) -> bool:
    """Return True for the loss of a node that answered again, in the same boot, without a job's ranks.

    The node did not fail, and its alert may have begun with an earlier outage.
    """
    return alert.code == "node_lost" and any(
        each.code == UNWATCHED_END and each.node == alert.node for each in among.alerts
    )


def _is_code(status: object) -> bool:
    """Return True for an error code of a program, or an unknown one; False for 0 or a signal."""
    return not isinstance(status, int) or 0 < status < SHELL_SIGNAL


EXCLUSIONS: tuple[tuple[Exclusion, ...], ...] = (
    (
        Exclusion("role of a consequence", lambda alert, _: alert.role not in ("root", "first")),
        Exclusion("time-out", lambda alert, _: alert in TIMEOUTS),
        Exclusion("unknown error line", lambda alert, _: alert in UNEXPLAINED),
        Exclusion("precursor that passed", lambda alert, _: is_precursor(alert)),
        Exclusion("no error", _is_mild),
        Exclusion("barrier of another rank than 0", _is_other_sides_barrier),
        Exclusion("abort by a watchdog", _is_torn_down),
        Exclusion("outage in which ranks ended", _is_outage),
        Exclusion("end of an unknown rank below a time-out", _is_below_wait),
    ),
    (Exclusion("stopped by its launcher", _is_signalled),),
    (
        Exclusion("aftermath of a time-out", lambda a, c: c.limits[a.id][0] > c.aftermath, spares_named=True),
        Exclusion("error that its rank survived", _was_survived, spares_named=True),
        Exclusion("end after a wait", _ends_after_wait, spares_named=True),
    ),
    (
        Exclusion("error code beside an exception elsewhere", _ends_mute, spares_named=True),
        Exclusion("error code at the end of a wait", _ends_with_waits, spares_named=True),
    ),
)
"""Exclusions by stage. The stages apply in order: a row may depend on what rows of earlier stages leave."""


def possible_causes(alerts: Sequence[Alert], limits: Mapping[str, tuple[float, float]]) -> list[Alert]:
    """Return the alerts to which no row of `EXCLUSIONS` applies.

    Args:
        alerts: All alerts of one group.
        limits: Alert id -> earliest and latest time of its first line (unix seconds).
    """
    left = list(alerts)
    for stage in EXCLUSIONS:
        among = Candidates(alerts, left, limits)
        left = [alert for alert in left if not any(_excludes(row, alert, among) for row in stage)]
    return left


def _excludes(row: Exclusion, alert: Alert, among: Candidates) -> bool:
    return row.applies(alert, among) and not (row.spares_named and alert in NAMES_CULPRIT)
