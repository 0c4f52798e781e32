"""The alerts and incidents that the screens show: the current ones, or those at the freeze of the view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from gpuwatch.diagnose.alerts.probed_links import CODE as PROBED
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.diagnose.model.incident import HangCheck, Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.model.text import clock
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.diagnose.straggler.alerts import TITLE as STRAGGLER
from gpuwatch.diagnose.straggler.alerts import in_past
from gpuwatch.number_text import is_ahead, plural
from gpuwatch.tui.model.severity import Severity
from gpuwatch.wire import Role

Place = TypeVar("Place", str, int)
Standing: TypeAlias = Literal["firing", "acknowledged", "silenced", "resolved"]
STANDINGS: tuple[Standing, ...] = ("firing", "acknowledged", "resolved", "silenced")
"""The states of alerts, in display order."""
ACTIVE: tuple[Standing, ...] = ("firing", "acknowledged")
"""Alert states that count as active; an acknowledged problem is among them."""
ROLES: tuple[Role, ...] = ("root", "first", "echo", "hint")
"""The roles of alerts in display order: alerts that name a cause before those that only follow."""
FOLDED_FROM = 2
"""From this number on, alerts of one code are folded into one line."""


class Book(Protocol):
    """The parts of `diagnose.alert_book.AlertBook` that the screens need."""

    @property
    def alerts(self) -> Mapping[str, Alert]:
        """The newest state of every alert, by id."""
        ...

    @property
    def incidents(self) -> Sequence[Incident]:
        """The incidents, the newest first."""
        ...

    @property
    def ended_jobs(self) -> Sequence[EndedJob]:
        """The jobs that ended before their nodes were connected, the latest first."""
        ...

    @property
    def checkpoints(self) -> Mapping[str | None, Checkpoint]:
        """Job -> its last checkpoint."""
        ...

    @property
    def version(self) -> int:
        """Increases with every change of the alerts, incidents or checkpoints."""
        ...

    def keep_hang_check(self, ident: str, hang_check: HangCheck, /) -> None:
        """Store the result of a hang query with the incident whose id is `ident`."""
        ...


class AlertSnapshot(Struct, frozen=True):
    """All alerts and incidents at one moment; they are immutable, so references to them suffice."""

    alerts: Mapping[str, Alert] = field(default_factory=dict)
    incidents: Sequence[Incident] = ()
    firing: int = 0
    """Number of alerts that fire, acknowledged ones included; silenced ones do not count."""
    criticals: int = 0
    """Number of kinds of active critical alerts: a failure of 512 ranks has only a few kinds."""
    errors: int = 0
    """Number of kinds of active alerts of severity error."""
    warnings: int = 0
    ended: Sequence[EndedJob] = ()
    """Jobs that ended before their nodes were connected, the latest first."""
    checkpoints: Mapping[str | None, Checkpoint] = field(default_factory=dict)
    """Job -> its last checkpoint."""
    unnamed_node: str | None = None
    """The node under which alerts of unknown nodes are listed; None: nowhere."""
    wall: float = inf
    """When it was taken (unix seconds)."""

    @property
    def active(self) -> list[Incident]:
        """The incidents that are not over, the newest first."""
        return [each for each in self.incidents if not each.over]

    @property
    def leading(self) -> Incident | None:
        """The most important incident: the newest active unacknowledged one, else the newest active one.

        An acknowledged incident stays in the status bar until it is over. None if no incident is active.
        """
        active = self.active
        return next((each for each in active if not each.acknowledged), active[0] if active else None)

    @property
    def loudest(self) -> Alert | None:
        """The most severe active alert (from warning), on a tie the newest; None if none.

        An acknowledged one only if all are.
        """
        return _loudest(self.alerts.values(), self.wall)

    @property
    def loudest_outside(self) -> Alert | None:
        """The `loudest` of the alerts that belong to no active incident; None if none."""
        own = {part for incident in self.active for part in _ids(incident)}
        return _loudest((alert for alert in self.alerts.values() if alert.id not in own), self.wall)

    @property
    def stragglers(self) -> list[Alert]:
        """The active alerts of ranks that slow their whole job, the first one first."""
        alerts = [each for each in self.alerts.values() if each.title == STRAGGLER]
        return sorted((a for a in alerts if standing(a) in ACTIVE), key=lambda alert: alert.first)

    @property
    def error_lines(self) -> int:
        """Number of error lines that no rule matches, in firing alerts.

        Those of ranks that continue to train are included.
        """
        own = [alert for alert in self.alerts.values() if alert in UNEXPLAINED]
        return sum(alert.count for alert in own if standing(alert) == "firing")

    @property
    def error_words(self) -> str:
        """Text about the `error_lines`: `3 error lines not matched by any rule`."""
        return f"{plural(self.error_lines, 'error line')} not matched by any rule"

    def incident(self, ident: str | None) -> Incident | None:
        """Return the incident with this id; None if there is none. `ident`: None: no incident is shown."""
        return next((each for each in self.incidents if each.id == ident), None)

    def at(self, node: str, gpu: int | None = None) -> list[Alert]:
        """Return the alerts of a node, or of one of its GPUs (index): firing ones first, then the newest."""
        own = [a for a in self.alerts.values() if self.listed_at(a) == node and (gpu is None or a.gpu == gpu)]
        return sorted(own, key=lambda each: (standing(each) != "firing", -each.last))

    def listed_at(self, alert: Alert) -> str | None:
        """Return the node under which an alert is listed: its own, else `unnamed_node`, which may be None."""
        return self.unnamed_node if alert.node is None else alert.node

    @property
    def probed(self) -> list[Alert]:
        """The active alerts about what the newest link probe found slow or dead."""
        return [a for a in self.alerts.values() if a.code == PROBED and standing(a) in ACTIVE]

    def worst_by_node(self) -> dict[str, Alert]:
        """Return node -> the cause of its newest active incident, else its most severe firing alert.

        Acknowledged incidents and alerts below a warning are left out.
        """
        found = self._worst(self.listed_at)
        for incident in reversed(self.active):
            cause = incident.cause
            if cause is None or cause.severity == "info":
                continue
            node = self.listed_at(cause)
            if node in found and standing(self.alerts.get(cause.id, cause)) == "firing":
                found[node] = cause
        return found

    def worst_by_rank(self) -> dict[int, Alert]:
        """Return rank -> its most severe firing alert (warning and above)."""
        return self._worst(lambda alert: alert.rank)

    def _worst(self, place: Callable[[Alert], Place | None]) -> dict[Place, Alert]:
        """Return place -> its most severe firing alert; on a tie one that names a cause, then the first."""
        found: dict[Place, Alert] = {}
        for alert in self.alerts.values():
            if standing(alert) == "firing" and alert.severity != "info" and (at := place(alert)) is not None:
                found[at] = min(found.get(at, alert), alert, key=_gravity)
        return found


def _loudest(alerts: Iterable[Alert], wall: float) -> Alert | None:
    """Return the most severe active alert; on a tie the newest that is not dated after `wall`."""
    active = [a for a in alerts if standing(a) in ACTIVE and a.severity != "info"]
    return min(
        active,
        key=lambda each: (
            each.acknowledged,
            ORDER.index(each.severity),
            is_ahead(wall - each.last),
            -each.last,
        ),
        default=None,
    )


def _ids(incident: Incident) -> Iterator[str]:
    """Yield the ids of an incident's alerts, and of those that were merged into them."""
    for alert in incident.alerts:
        yield alert.id
        yield from alert.parts


def _gravity(alert: Alert) -> tuple[int, int, float]:
    return ORDER.index(alert.severity), ROLES.index(alert.role), alert.first


def take_snapshot(
    book: Book,
    conditions: Mapping[str, Alert] = MappingProxyType({}),
    unnamed_node: str | None = None,
    wall: float = inf,
) -> AlertSnapshot:
    """Return a snapshot of the book, with `conditions` (alerts by id) in addition to its alerts.

    `unnamed_node`: the node under which alerts without a node are listed. `wall`: unix seconds now.
    """
    known = {**book.alerts, **conditions}
    alerts = {ident: in_past(each, book.incidents) for ident, each in known.items()}
    firing = sum(standing(each) in ACTIVE for each in alerts.values())
    ended = tuple(book.ended_jobs)
    counts = firing, *kinds(alerts.values())
    return AlertSnapshot(
        alerts, tuple(book.incidents), *counts, ended, dict(book.checkpoints), unnamed_node, wall
    )


def kinds(alerts: Iterable[Alert]) -> tuple[int, int, int]:
    """Return how many kinds of active alerts are critical, errors and warnings, by the worst of each kind.

    Every screen uses this count, and the list has one line for each kind. A failure of 512 ranks is a handful
    of kinds.
    """
    worst: dict[str, Severity] = {}
    for each in alerts:
        if standing(each) in ACTIVE:
            worst[each.code] = min(worst.get(each.code, each.severity), each.severity, key=ORDER.index)
    found = list(worst.values())
    return found.count("critical"), found.count("error"), found.count("warning")


def problem_text(reported: AlertSnapshot) -> str:
    """Return the numbers of active kinds as text: `4 critical, 2 errors, 1 warning`; "" if there are none."""
    parts = (
        f"{reported.criticals} critical" if reported.criticals else "",
        plural(reported.errors, "error") if reported.errors else "",
        plural(reported.warnings, "warning") if reported.warnings else "",
    )
    return ", ".join(part for part in parts if part)


def alert_text(alert: Alert, wall: float) -> str:
    """Return `node: title: text`, without an unknown node, and without a text that repeats the title.

    If it is acknowledged, since when comes first. `wall`: now, in unix seconds.
    """
    repeats = alert.text.casefold() == alert.title.casefold()
    taken = f"{acknowledged_text(alert.acknowledged_at, wall)}  " if alert.acknowledged else ""
    return taken + ": ".join(filter(None, (alert.node, alert.title, "" if repeats else alert.text)))


def standing(alert: Alert) -> Standing:
    """Return the state of an alert: silenced, else resolved, else acknowledged, else firing."""
    if alert.silenced:
        return "silenced"
    if alert.state == "resolved":
        return "resolved"
    return "acknowledged" if alert.acknowledged else "firing"


def acknowledged_text(at: float | None, wall: float, by: str | None = None) -> str:
    """Return `acknowledged 08:33 by alice@login-1`, in local time; unknown parts are left out.

    `at` and `wall` (now) are unix seconds; the time has its date if `wall` is on another day.
    """
    when = f" {clock(at, wall).rpartition(':')[0]}" if at else ""
    return f"acknowledged{when}{f' by {by}' if by else ''}"


def severity_shown(shown: Incident | Alert) -> Severity:
    """Return the severity for painting: "unknown" (muted) if it is acknowledged, or an incident is over."""
    over = isinstance(shown, Incident) and shown.over
    return "unknown" if over or shown.acknowledged else shown.severity


def sign_shown(incident: Incident) -> Severity:
    """Return the severity whose sign marks an incident: its own also when acknowledged, "ok" once over."""
    return "ok" if incident.over else incident.severity


class Bundle(Struct, frozen=True):
    """Alerts with the same code and state; two or more are one line of the list."""

    alerts: tuple[Alert, ...]
    """The alerts, at least one, the oldest first."""

    @property
    def key(self) -> tuple[str, str]:
        """The code and state that the alerts share."""
        return self.alerts[0].code, standing(self.alerts[0])

    @property
    def folded(self) -> bool:
        """True if the bundle's alerts are shown as one line of the list."""
        return len(self.alerts) >= FOLDED_FROM

    @property
    def count(self) -> int:
        """Total number of occurrences."""
        return sum(alert.count for alert in self.alerts)

    @property
    def ranks(self) -> list[int]:
        """The ranks of the alerts, ascending, each once; empty if an alert has none."""
        ranks = {alert.rank for alert in self.alerts}
        return [] if None in ranks else sorted(rank for rank in ranks if rank is not None)

    @property
    def nodes(self) -> list[str]:
        """The names of the alerts' nodes, sorted, each once."""
        return sorted({alert.node for alert in self.alerts if alert.node is not None})


def bundles(alerts: Mapping[str, Alert], *, only_firing: bool = False) -> list[Bundle]:
    """Return the alerts in groups of one code and state: firing ones first, then by severity, then causes.

    `only_firing`: leave out alerts that do not fire, and those of severity info.
    """
    found: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts.values():
        stands = standing(alert)
        if not only_firing or (stands == "firing" and alert.severity != "info"):
            found.setdefault((alert.code, stands), []).append(alert)
    made = [Bundle(tuple(sorted(each, key=lambda alert: alert.first))) for each in found.values()]
    return sorted(made, key=_order)


def _order(bundle: Bundle) -> tuple[int, int, int, float]:
    stands = STANDINGS.index(standing(bundle.alerts[0]))
    worst = min(ORDER.index(alert.severity) for alert in bundle.alerts)
    role = min(ROLES.index(alert.role) for alert in bundle.alerts)
    return stands, worst, role, -max(alert.last for alert in bundle.alerts)
