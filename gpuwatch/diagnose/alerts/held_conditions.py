"""The conditions that hold on nodes and GPUs, with the times after which their alerts are raised and end."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.alerts.hysteresis import Hysteresis
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import Role

AT_ONCE = frozenset(
    (
        "gpu_lost",
        "ecc_uncorrected",
        "remap_pending",
        "remap_failed",
        "retired_pending",
        "recovery_action",
        "gpu_missing",
        "nvlink_errors",
        "pcie_replays",
        "disk_full",
        "scheduler_state",
    )
)
"""Conditions without a hold time: facts, not values that fluctuate."""
HALF_HOLD = frozenset(("gpu_stuck", "node_lost", "node_stale", "ib_down", "nvlink_down", "gpu_stale"))
"""Conditions with half the hold time: a link that reconnects at once is no lost node."""
CLEAR_SOON, CLEAR_SOON_S = frozenset(("node_lost", "node_stale")), 10.0
"""Conditions of a link, which end this soon (seconds) after the node answers again."""
NEVER_ALERTED = frozenset(
    ("xid", "frames_refused", "processes_partial", "agent_behind", "clock_unsure", "gpu_unanswered")
)
"""Conditions that never become alerts: Xids arrive as events, the others are shown on screens only."""
ROOTS = frozenset(("gpu_lost", "gpu_stuck", "node_lost"))
"""Conditions that can end a job and thus be a root cause; the others are context."""
MULTI_INSTANCE = frozenset(("disk_full", "ib_down", "agent_cost"))
"""Codes of conditions of which one node can have several; the evidence names which."""


class Held(Struct, frozen=True):
    """A condition that holds at one place."""

    node: str
    condition: Condition
    """As it was last seen."""
    begun_as: Condition
    """As it was at `began`."""
    began: float
    """When it was first seen (unix seconds); for a lost node, the time of its last frame.

    A gap resets this time: any gap before the condition is reported, and one longer than `clear_s`
    afterwards.
    """


def key(node: str, condition: Condition) -> str:
    """Return the id of a condition at its place; its alert has the same id."""
    subject = f":{condition.evidence.what}" if condition.code in MULTI_INSTANCE else ""
    gpu = "" if condition.gpu is None else f":{condition.gpu}"
    return f"{condition.code}@{node}{gpu}{subject}"


def hold_s(code: str, thresholds: Thresholds) -> float:
    """Return how many seconds a condition must last before it becomes an alert."""
    if code == "idle_held":
        return thresholds.idle_held_s
    return 0.0 if code in AT_ONCE else thresholds.hold_s / 2 if code in HALF_HOLD else thresholds.hold_s


def clear_s(code: str, thresholds: Thresholds) -> float:
    """Return how many seconds a condition must be absent before its alert ends."""
    return min(thresholds.clear_s, CLEAR_SOON_S) if code in CLEAR_SOON else thresholds.clear_s


def eased(thresholds: Thresholds) -> Thresholds:
    """Return the limits that a value must meet for an alert to end: stricter than those that raise it."""
    margin = thresholds.clear_margin
    return replace(
        thresholds,
        temperature_margin_c=thresholds.temperature_margin_c + margin,
        temperature_c=thresholds.temperature_c - margin,
        memory_pct=thresholds.memory_pct - margin,
        disk_pct=thresholds.disk_pct - margin,
        throttle_pct=max(0.0, thresholds.throttle_pct - margin),
        peer_temperature_c=max(1.0, thresholds.peer_temperature_c - margin),
        peer_clock_pct=min(100.0, thresholds.peer_clock_pct + margin),
    )


class HeldConditions:
    """Tracks the current conditions of all nodes, and raises and ends their alerts."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._held: dict[str, Held] = {}
        self._by_node: dict[str, set[str]] = {}
        self._times = Hysteresis()
        self.alerts = self._times.alerts
        """Alert id -> alert; firing and ended ones."""

    def firing(self, node: str) -> set[str]:
        """Return the codes of the alerts that fire on a node; the eased limits apply to them."""
        alerts = (self._times.firing(name) for name in self._by_node.get(node, ()))
        return {alert.code for alert in alerts if alert is not None}

    def see(self, node: str, conditions: Iterable[Condition], now: float, wall: float) -> None:
        """Record all conditions that hold on a node now; forget the others unless their alert fires.

        Those in NEVER_ALERTED are ignored. `wall`: unix seconds.
        """
        names = self._by_node.setdefault(node, set())
        gone = set(names)
        for condition in conditions:
            if condition.code in NEVER_ALERTED:
                continue
            name = key(node, condition)
            gone.discard(name)
            names.add(name)
            self._times.seen(name, now)
            before = self._held.get(name)
            age = condition.evidence.age_s if condition.code in ("node_lost", "node_stale") else None
            began = wall - (age or 0.0) if before is None else before.began
            begun_as = condition if before is None else before.begun_as
            self._held[name] = Held(node, condition, begun_as, began)
        for name in gone:
            if self._times.firing(name) is None:
                self._forget(name, wall)

    def turn(self, now: float, wall: float) -> bool:
        """Raise alerts whose hold time is over and end those whose clear time is; return True if one changed.

        A firing alert takes a changed severity. Call it after `see` for the checked nodes; conditions of
        other nodes keep their state.

        `wall`: unix seconds.
        """
        moved = False
        for name, held in list(self._held.items()):
            code, alert = held.condition.code, self._times.firing(name)
            lasted_s, unseen_s = self._times.times_s(name, now)
            if unseen_s > clear_s(code, self._thresholds):
                moved |= self._forget(name, wall if alert is None else alert.last)
            elif (
                lasted_s >= hold_s(code, self._thresholds)
                if alert is None
                else alert.severity != held.condition.severity
            ):
                self._times.report(_alert(name, held, wall), now, wall, wall - held.began)
                moved = True
        return moved

    def _forget(self, name: str, wall: float) -> bool:
        """Forget a condition, and end its alert; return True if it fired."""
        self._by_node[self._held.pop(name).node].discard(name)
        return self._times.end(name, wall)


def proof_of(condition: Condition, node: str, wall: float, began: float) -> Proof:
    """Return the value that a condition is based on, with its time.

    That is `wall` less the age of the value, or `began` if the age is unknown (unix seconds).
    """
    evidence = condition.evidence
    return Proof(
        "value", evidence.text, began if evidence.age_s is None else wall - evidence.age_s, node=node
    )


def _alert(name: str, held: Held, wall: float) -> Alert:
    node, condition = held.node, held.condition
    role: Role = "root" if condition.code in ROOTS else "hint"
    proof = proof_of(condition, node, wall, held.began)
    return Alert(
        id=name,
        code=condition.code,
        severity=condition.severity,
        title=condition.code.replace("_", " "),
        text=condition.text,
        proof=(proof,),
        role=role,
        node=node,
        gpu=condition.gpu,
        first=held.began,
        last=wall,
        kernel=role == "root",
        first_text=_first_text(held),
    )


def _first_text(held: Held) -> str:
    """Return the text of a condition with its first reading; "" if that is no dated number, or the newest."""
    begun = held.begun_as
    is_reading = isinstance(begun.evidence.value, (int, float)) and begun.evidence.age_s is not None
    return begun.text if is_reading and begun.text != held.condition.text else ""
