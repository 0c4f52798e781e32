"""The alerts and incidents that the screens paint: as the book has them, or held still with a frozen view."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, TypeVar

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.diagnose.model.incident import HangCheck, Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.model.text import plural
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.tui.model.severity import Severity
from gpuwatch.wire import Role

Place = TypeVar("Place", str, int)
Standing: TypeAlias = Literal["firing", "acknowledged", "silenced", "resolved"]
STANDINGS: tuple[Standing, ...] = ("firing", "acknowledged", "resolved", "silenced")
"""In the order in which they want to be looked at."""
ACTIVE: tuple[Standing, ...] = ("firing", "acknowledged")
"""What counts: an acknowledged problem is still one."""
ROLES: tuple[Role, ...] = ("root", "first", "echo", "hint")
"""What names a cause before what only follows."""
FOLDED_FROM = 3
"""So many alerts of one code are one line of the list."""


class Book(Protocol):
    """What the screens need of `diagnose.alert_book.AlertBook`."""

    @property
    def alerts(self) -> Mapping[str, Alert]:
        """The newest state of every alert, by id."""
        ...

    @property
    def incidents(self) -> Sequence[Incident]:
        """The newest first."""
        ...

    @property
    def ended_jobs(self) -> Sequence[EndedJob]:
        """Jobs that ended before their nodes were connected, the last one first."""
        ...

    @property
    def checkpoints(self) -> Mapping[str | None, Checkpoint]:
        """Job -> its last checkpoint."""
        ...

    @property
    def version(self) -> int:
        """Moves when anything above did."""
        ...

    def keep_hang_check(self, ident: str, hang_check: HangCheck, /) -> None:
        """Keep the answer to which ranks an incident's ranks wait for."""
        ...


@dataclass(frozen=True)
class AlertSnapshot:
    """All that is reported at one moment. Alerts and incidents never change, so holding them is enough."""

    alerts: Mapping[str, Alert] = field(default_factory=dict)
    incidents: Sequence[Incident] = ()
    firing: int = 0
    """Alerts that fire, acknowledged ones among them; silenced ones do not count."""
    criticals: int = 0
    """Kinds of alerts that fire, errors among them: a cascade over 512 ranks is a handful."""
    warnings: int = 0
    ended: Sequence[EndedJob] = ()
    """Jobs that ended before their nodes were connected, the last one first."""
    checkpoints: Mapping[str | None, Checkpoint] = field(default_factory=dict)
    """Job -> its last checkpoint."""
    unnamed_node: str | None = None
    """Where alerts are listed whose node is not known; None: nowhere."""

    @property
    def leading(self) -> Incident | None:
        """The incident to look at: the newest active one that is not acknowledged, else the newest active.

        An acknowledged incident stays in the banner until its cause is gone.
        """
        active = [each for each in self.incidents if not each.over]
        return next((each for each in active if not each.acknowledged), active[0] if active else None)

    @property
    def loudest(self) -> Alert | None:
        """The worst alert that fires and is not acknowledged, of equals the newest; of warnings and worse."""
        firing = [a for a in self.alerts.values() if standing(a) == "firing" and a.severity != "info"]
        return min(firing, key=lambda alert: (ORDER.index(alert.severity), -alert.last), default=None)

    @property
    def error_lines(self) -> int:
        """How many error lines no rule explains, those of ranks that train on among them."""
        own = [alert for alert in self.alerts.values() if alert.code == UNEXPLAINED]
        return sum(alert.count for alert in own if standing(alert) == "firing")

    @property
    def error_words(self) -> str:
        """`3 error lines not matched by any rule`."""
        return f"{plural(self.error_lines, 'error line')} not matched by any rule"

    def incident(self, ident: str) -> Incident | None:
        """An incident by its id."""
        return next((each for each in self.incidents if each.id == ident), None)

    def at(self, node: str, gpu: int | None = None) -> list[Alert]:
        """What was reported about a node, or about one of its GPUs: what fires first, then the newest."""
        own = [a for a in self.alerts.values() if self.listed_at(a) == node and (gpu is None or a.gpu == gpu)]
        return sorted(own, key=lambda each: (standing(each) != "firing", -each.last))

    def listed_at(self, alert: Alert) -> str | None:
        """The node under which an alert is listed."""
        return self.unnamed_node if alert.node is None else alert.node

    def worst_by_node(self) -> dict[str, Alert]:
        """Node -> the alert that fires there and is worst."""
        return self._worst(self.listed_at)

    def worst_by_rank(self) -> dict[int, Alert]:
        """Rank -> the alert that fires there and is worst."""
        return self._worst(lambda alert: alert.rank)

    def _worst(self, place: Callable[[Alert], Place | None]) -> dict[Place, Alert]:
        """Of warnings and worse; of equals what names a cause, then the first."""
        found: dict[Place, Alert] = {}
        for alert in self.alerts.values():
            if standing(alert) == "firing" and alert.severity != "info" and (at := place(alert)) is not None:
                found[at] = min(found.get(at, alert), alert, key=_gravity)
        return found


def _gravity(alert: Alert) -> tuple[int, int, float]:
    return ORDER.index(alert.severity), ROLES.index(alert.role), alert.first


def take_snapshot(
    book: Book, conditions: Mapping[str, Alert] = MappingProxyType({}), unnamed_node: str | None = None
) -> AlertSnapshot:
    """What the book states now, and the conditions that no alert reports of."""
    alerts = {**book.alerts, **conditions}
    firing = sum(standing(each) in ACTIVE for each in alerts.values())
    ended = tuple(book.ended_jobs)
    counts = firing, *kinds(alerts.values())
    return AlertSnapshot(alerts, tuple(book.incidents), *counts, ended, dict(book.checkpoints), unnamed_node)


def kinds(alerts: Iterable[Alert]) -> tuple[int, int]:
    """The problems of some alerts: kinds that are active, critical ones and errors, then warnings.

    This is the count of every screen. A failure of 512 ranks is a handful of kinds.
    """
    active = [each for each in alerts if standing(each) in ACTIVE]
    bad = {each.code for each in active if each.severity in ("critical", "error")}
    return len(bad), len({each.code for each in active if each.severity == "warning"} - bad)


def problem_text(criticals: int, warnings: int) -> str:
    """`6 critical, 1 warning`; empty where there is none."""
    parts = (f"{criticals} critical" if criticals else "", plural(warnings, "warning") if warnings else "")
    return ", ".join(part for part in parts if part)


def standing(alert: Alert) -> Standing:
    """How an alert stands; what the person stated of it goes before what it does by itself."""
    if alert.silenced:
        return "silenced"
    if alert.state == "resolved":
        return "resolved"
    return "acknowledged" if alert.acknowledged else "firing"


def acknowledged_text(at: float | None, by: str | None = None) -> str:
    """`acknowledged 08:33 by alice@login-1`, on the clock of this machine."""
    when = "" if not at else f" {time.strftime('%H:%M', time.localtime(at))}"
    return f"acknowledged{when}{f' by {by}' if by else ''}"


def severity_shown(incident: Incident) -> Severity:
    """How an incident is painted: acknowledged and resolved ones are muted."""
    return "unknown" if incident.over or incident.acknowledged else incident.severity


@dataclass(frozen=True)
class Bundle:
    """Alerts of one code that stand alike: one line of the list, until it is opened."""

    alerts: tuple[Alert, ...]
    """At least one, the oldest first."""

    @property
    def key(self) -> tuple[str, str]:
        """What they have in common."""
        return self.alerts[0].code, standing(self.alerts[0])

    @property
    def folded(self) -> bool:
        """Whether they are shown as one."""
        return len(self.alerts) >= FOLDED_FROM

    @property
    def count(self) -> int:
        """How often it happened, over all of them."""
        return sum(alert.count for alert in self.alerts)

    @property
    def ranks(self) -> list[int]:
        """Whose they are."""
        return sorted({alert.rank for alert in self.alerts if alert.rank is not None})

    @property
    def nodes(self) -> list[str]:
        """Where they are."""
        return sorted({alert.node for alert in self.alerts if alert.node is not None})


def bundles(alerts: Mapping[str, Alert], *, only_firing: bool = False) -> list[Bundle]:
    """All alerts by code and standing: what fires first, of it the worst, of these what names a cause."""
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
