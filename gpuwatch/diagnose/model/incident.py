"""An incident: alerts of one job that are close in time, the root cause first, with a headline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.last_activity import Activity
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.model.verdict import Confidence, Verdict
from gpuwatch.wire import Role, Severity, TimeBound

UNKNOWN = "unknown"
"""Class of an incident whose cause is not in the logs."""
RECURRENCE_DAYS = 14
"""Number of days for which earlier incidents count."""
DAY_S = 86_400.0
MAX_EARLIER = 20


class Moment(msgspec.Struct, frozen=True):
    """An entry of the timeline. Similar events on several ranks at about the same time are one entry."""

    at: float
    until: float
    what: str
    role: Role
    code: str
    node: str | None = None
    ranks: tuple[int, ...] = ()
    count: int = 1
    alert: str = ""
    """Id of the first alert of the entry."""
    bound: TimeBound | None = None
    """How `at` bounds the time of an undated line; None: `at` is its time, to within a minute."""


class HangCheck(msgspec.Struct, frozen=True):
    """The result of a hang query as an incident stores it: when, the verdict, and next steps."""

    at: float
    """When the ranks were queried, unix seconds on our clock."""
    verdict: Verdict
    do: tuple[tuple[str, str], ...] = ()
    """Next steps: description and command to copy."""
    pausing: tuple[int, ...] = ()
    """Its culprits that were in a function that saves, evaluates or prepares: they continue by themselves."""


class EarlierIncident(msgspec.Struct, frozen=True):
    """An earlier incident of the same kind: the time of its cause, its headline and its job."""

    at: float
    """Time of the earlier incident's cause (unix seconds)."""
    headline: str
    job: str | None = None


class Recurrence(msgspec.Struct, frozen=True):
    """How often incidents of one class occurred on one GPU, else on one node, and which earlier ones."""

    count: int
    """Includes this incident."""
    text: str
    """`third Xid 79 on gpu-011 GPU 5 in 14 days`; empty: the first one."""
    earlier: tuple[EarlierIncident, ...] = ()
    """The earlier incidents, newest first, at most `MAX_EARLIER`."""
    days: int = RECURRENCE_DAYS


class IncidentNote(msgspec.Struct, frozen=True):
    """An operator's note on an incident: the text, who wrote it and when."""

    at: float
    """Unix seconds."""
    by: str
    """`alice@login-1`."""
    text: str


class Incident(msgspec.Struct, frozen=True):
    """An incident: alerts of one job with their root cause, culprit and next steps."""

    id: str
    """The id of the incident, stable while it lasts; it is made of the job and the first alert."""
    number: int
    """The number of the incident within a session: 1, 2, 3, ..."""
    headline: str
    """The first failing rank with GPU and node, the cause, and how many ranks followed."""
    code: str
    """Failure class of the cause; of the timeouts if the cause is not logged; else `UNKNOWN`."""
    severity: Severity
    first: float
    """Time of the cause, unix seconds on our clock."""
    last: float
    rank: int | None = None
    node: str | None = None
    gpu: int | None = None
    job: str | None = None
    confidence: Confidence = "low"
    because: str = ""
    """The reason for the confidence in the culprit."""
    settle: tuple[str, ...] = ()
    """Checks that would confirm the verdict: commands to copy, or what to look at."""
    cause: Alert | None = None
    """None: unknown."""
    alerts: tuple[Alert, ...] = ()
    """All alerts: the cause, then failures by time, then notes by time."""
    followers: int = 0
    """Number of ranks whose failures followed from the cause (number of nodes if no ranks are known)."""
    silent: tuple[int, ...] = ()
    """Suspects: ranks of the job that logged no error while the others did."""
    timeline: tuple[Moment, ...] = ()
    explain: str = ""
    do: tuple[str, ...] = ()
    """Next steps from the playbook, with commands."""
    links: tuple[str, ...] = ()
    last_activity: Activity | None = None
    """For a hang without a logged cause: the last line of the suspected rank."""
    checkpoint: Checkpoint | None = None
    """Last checkpoint of the job; None: no line reports one."""
    hang_check: HangCheck | None = None
    """The result of a hang query; None: the ranks were not queried."""
    over: bool = False
    """True if all alerts are resolved or the incident was closed; acknowledged alerts count as active."""
    closed: str | None = None
    """Why the incident was closed although alerts still fire: the job runs again, or has no rank left."""
    restarted: str = ""
    """How often torchrun restarted the job, and whether it then trained; empty: no restart is known."""
    recurrence: Recurrence | None = None
    """Earlier incidents of the same kind; None: unknown yet, or none are stored (demo)."""
    notes: tuple[IncidentNote, ...] = ()
    """Oldest first."""
    acknowledged: bool = False
    acknowledged_at: float | None = None
    """When the cause was acknowledged, or without a cause the last alert (unix seconds)."""
    acknowledged_by: str | None = None
    """Who acknowledged the incident, such as `alice@login-1`; None: unknown."""


def acknowledged_with(ident: str, incidents: Iterable[Incident], alerts: Mapping[str, Alert]) -> list[Alert]:
    """Return the alerts that are acknowledged with the alert or incident whose id is `ident`.

    Those of an incident are all but notes about another node or GPU than that of its cause.
    """
    own = (
        a for each in incidents if each.id == ident for a in each.alerts if not _is_elsewhere(a, each.cause)
    )
    return [alerts[name] for name in (ident, *(alert.id for alert in own)) if name in alerts]


def _is_elsewhere(alert: Alert, cause: Alert | None) -> bool:
    """Return True for a note about another node, or another GPU, than the cause."""
    if cause is None or alert.role != "hint":
        return False
    other_node = None not in (alert.node, cause.node) and alert.node != cause.node
    return other_node or (None not in (alert.gpu, cause.gpu) and alert.gpu != cause.gpu)


def outside(alerts: Iterable[Alert], incidents: Iterable[Incident]) -> list[Alert]:
    """Return the alerts that belong to no incident."""
    inside = {alert.id for incident in incidents for alert in incident.alerts}
    return [alert for alert in alerts if alert.id not in inside]
