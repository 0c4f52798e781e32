"""Hysteresis: a condition becomes an alert after a hold time.

The alert ends a clear time after it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs
from msgspec.structs import replace

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
    """The state of a condition at one place: since when it holds, and when it was last seen."""

    node: str
    condition: Condition
    """As it was last seen."""
    begun_as: Condition
    """As it was at `since`."""
    since: float
    """When the condition was first seen (monotonic seconds).

    A gap resets this time: any gap before the condition is reported, and one longer than `clear_s`
    afterwards.
    """
    seen: float
    """When it was last seen."""
    began: float
    """The time `since` as unix seconds; for a lost node, the time of its last frame."""


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


class Hysteresis:
    """Tracks the current conditions of all nodes, and raises and ends their alerts."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._held: dict[str, Held] = {}
        self._by_node: dict[str, set[str]] = {}
        self.alerts: dict[str, Alert] = {}
        """Alert id -> alert; firing and ended ones."""

    def firing(self, node: str) -> set[str]:
        """Return the codes of the alerts that fire on a node; the eased limits apply to them."""
        return {
            self.alerts[name].code
            for name in self._by_node.get(node, ())
            if name in self.alerts and self.alerts[name].state == "firing"
        }

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
            before = self._held.get(name)
            if before is None:
                age = condition.evidence.age_s if condition.code in ("node_lost", "node_stale") else None
                began = wall - (age or 0.0)
                self._held[name] = Held(node, condition, condition, now, now, began)
                names.add(name)
            else:
                self._held[name] = Held(node, condition, before.begun_as, before.since, now, before.began)
        for name in gone:
            if name not in self.alerts or self.alerts[name].state != "firing":
                del self._held[name]
                names.discard(name)

    def turn(self, now: float, wall: float) -> bool:
        """Raise alerts whose hold time is over and end those whose clear time is; return True if one changed.

        A firing alert takes a changed severity. Call it after `see` for the checked nodes; conditions of
        other nodes keep their state.

        `wall`: unix seconds.
        """
        moved = False
        for name, held in list(self._held.items()):
            node = held.node
            alert = self.alerts.get(name)
            firing = alert is not None and alert.state == "firing"
            if now - held.seen > clear_s(held.condition.code, self._thresholds):
                del self._held[name]
                self._by_node[node].discard(name)
                if firing and alert is not None:
                    self.alerts[name] = structs.replace(alert, state="resolved")
                    moved = True
            elif not firing and now - held.since >= hold_s(held.condition.code, self._thresholds):
                self.alerts[name] = _alert(name, node, held, wall, 1 if alert is None else alert.count + 1)
                moved = True
            elif firing and alert is not None and alert.severity != held.condition.severity:
                self.alerts[name] = _alert(name, node, held, wall, alert.count)
                moved = True
        return moved


def proof_of(condition: Condition, node: str, wall: float, began: float) -> Proof:
    """Return the value that a condition is based on, with its time.

    That is `wall` less the age of the value, or `began` if the age is unknown (unix seconds).
    """
    evidence = condition.evidence
    return Proof(
        "value", evidence.text, began if evidence.age_s is None else wall - evidence.age_s, node=node
    )


def _alert(name: str, node: str, held: Held, wall: float, count: int) -> Alert:
    condition = held.condition
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
        count=count,
        kernel=role == "root",
        first_text=_first_text(held),
    )


def _first_text(held: Held) -> str:
    """Return the text of a condition with its first reading; "" if that is no dated number, or the newest."""
    begun = held.begun_as
    is_reading = isinstance(begun.evidence.value, (int, float)) and begun.evidence.age_s is not None
    return begun.text if is_reading and begun.text != held.condition.text else ""
