"""An incident: alerts of one job close in time, the cause first, reported in one sentence."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.confidence import Confidence
from gpuwatch.diagnose.model.last_activity import Activity
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.wire import Role, Severity

UNKNOWN = "unknown"
"""The class of an incident whose cause the logs do not report."""
RECURRENCE_DAYS = 14
"""How far back earlier incidents count."""
DAY_S = 86_400.0
MAX_EARLIER = 20


class Moment(msgspec.Struct, frozen=True):
    """One line of the timeline: equal things that happened to several ranks close together are one."""

    at: float
    until: float
    what: str
    role: Role
    code: str
    node: str | None = None
    ranks: tuple[int, ...] = ()
    count: int = 1
    alert: str = ""
    """The id of the first alert it is made of."""


class HangCheck(msgspec.Struct, frozen=True):
    """The result of the hang query to all ranks."""

    at: float
    """When they were asked: unix seconds on our clock."""
    sentence: str
    wrong: bool
    culprits: tuple[int, ...] = ()
    confidence: Confidence = "low"
    evidence: tuple[str, ...] = ()
    settle: tuple[str, ...] = ()
    do: tuple[tuple[str, str], ...] = ()
    """What it does, and the command to copy."""


class EarlierIncident(msgspec.Struct, frozen=True):
    """One that was seen before."""

    at: float
    """When its cause happened (unix seconds)."""
    headline: str
    job: str | None = None


class Recurrence(msgspec.Struct, frozen=True):
    """The earlier incidents of the same class on the same GPU, else on the same node."""

    count: int
    """This one counted in."""
    text: str
    """`third Xid 79 on gpu-011 GPU 5 in 14 days`; empty: it is the first one."""
    earlier: tuple[EarlierIncident, ...] = ()
    """The newest first, `MAX_EARLIER` at most."""
    days: int = RECURRENCE_DAYS


class IncidentNote(msgspec.Struct, frozen=True):
    """What a person noted about an incident."""

    at: float
    """Unix seconds."""
    by: str
    """`alice@login-1`."""
    text: str


class Incident(msgspec.Struct, frozen=True):
    """What a person reads first."""

    id: str
    """Stable while the incident lasts: of the job and its first alert."""
    number: int
    """1, 2, 3 in a session."""
    headline: str
    """The first failing rank, its GPU and node, the cause, and how many only follow."""
    code: str
    """The class of the cause; of the timeouts where the cause is not logged; `UNKNOWN`: nothing is known."""
    severity: Severity
    first: float
    """When the cause happened: unix seconds on our clock."""
    last: float
    rank: int | None = None
    node: str | None = None
    gpu: int | None = None
    job: str | None = None
    confidence: Confidence = "low"
    because: str = ""
    """Why the confidence is what it is."""
    settle: tuple[str, ...] = ()
    """What would settle the doubt: a command to copy, or a thing to look at."""
    cause: Alert | None = None
    """None: unknown."""
    alerts: tuple[Alert, ...] = ()
    """All of them: the cause, then what failed by time, then remarks by time."""
    followers: int = 0
    """Ranks (nodes, where no ranks are known) that only follow."""
    silent: tuple[int, ...] = ()
    """Ranks of the job that logged no error while the others reported: suspects."""
    timeline: tuple[Moment, ...] = ()
    explain: str = ""
    do: tuple[str, ...] = ()
    """The playbook: what to do, commands included."""
    links: tuple[str, ...] = ()
    last_activity: Activity | None = None
    """Of a hang whose cause is not logged: what the rank that was waited for logged last."""
    checkpoint: Checkpoint | None = None
    """The last one of its job; None: no line reports one."""
    hang_check: HangCheck | None = None
    """None: the ranks were not queried."""
    over: bool = False
    """Every alert of it was resolved, or it was closed; an acknowledged one still stands."""
    closed: str | None = None
    """Why it is over while lines of it still stand: the job runs again, or a hang has no rank left."""
    recurrence: Recurrence | None = None
    """None: earlier incidents are not known (yet), or none are kept, as of the demo."""
    notes: tuple[IncidentNote, ...] = ()
    """The oldest first."""
    acknowledged: bool = False
    acknowledged_at: float | None = None
    """Unix seconds; of an incident without a cause when the last of its alerts was."""
    acknowledged_by: str | None = None
    """`alice@login-1`; None: not known."""


def outside(alerts: Iterable[Alert], incidents: Iterable[Incident]) -> list[Alert]:
    """The alerts that belong to no incident."""
    inside = {alert.id for incident in incidents for alert in incident.alerts}
    return [alert for alert in alerts if alert.id not in inside]
