"""A summary of each node, rebuilt only when the node has changed, for the fleet screen and status bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from gpuwatch.diagnose.health.conditions import gpu_conditions, node_conditions
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.metrics import METRICS, NODE_METRICS
from gpuwatch.fleet.nodes.node import STALE_TICKS, Gpu, Node, NodeState
from gpuwatch.fleet.stepwise import Steps, complete
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.tui.model.severity import Severity

_ORDER: dict[Severity, int] = {"ok": 0, "info": 1, "unknown": 2, "warning": 3, "error": 4, "critical": 5}


STATE_SEVERITY: dict[NodeState, Severity] = {
    "live": "ok",
    "connecting": "unknown",
    "stale": "warning",
    "lost": "critical",
}

RUNNING_S, QUIET_S = 1.0, 3.0
"""Seconds after which a node without news is judged again: if its texts show seconds, and otherwise."""


def general_reason(text: str, node: Node) -> str:
    """Return the text without the node's name and address, so that equal reasons of nodes can be merged."""
    for own in (node.spec.address, node.name):
        text = text.replace(f"{own} ", "").replace(f" {own}", "") if own else text
    return text


def severity_level(severity: Severity) -> int:
    """Return the severity as a number for comparison; higher is worse."""
    return _ORDER[severity]


def by_gravity(condition: Condition) -> tuple[int, bool]:
    """Return the sort key of a condition, the most severe first.

    On a tie an Xid, which the driver reports itself, comes before its consequences.
    """
    return -severity_level(condition.severity), condition.code != "xid"


class NodeView(Struct, frozen=True):
    """The summary of one node; a number is None if it is unknown."""

    node: Node
    name: str
    state: NodeState
    severity: Severity
    judged_at: float
    """Time of the judgement, from which the ages in the conditions' evidence count."""
    until: float
    """Time at which the node must be judged again even without news (monotonic seconds)."""
    stamp: tuple[int, NodeState, float]
    """Two summaries with the same stamp are painted alike, except for ages."""
    gpus: list[Gpu]
    """The GPUs of the node, by index."""
    gpu_severity: dict[str, Severity]
    """UUID of a GPU -> its severity."""
    conditions: list[Condition]
    """The conditions of the node and its GPUs, the most severe first."""
    ok: int
    stuck: int
    unanswered: int
    """Number of GPUs that the driver lists without values so far."""
    lost: int
    """Number of lost GPUs and of those that never appeared; 0 while no GPU is known."""
    expected: int
    util_mean: float | None
    util_min: float | None
    memory_pct: float | None
    power_w: float | None
    temperature_max: float | None
    cpu_pct: float | None
    host_memory_pct: float | None
    rx_bps: float | None
    tx_bps: float | None

    @property
    def cells(self) -> int:
        """Number of known or of expected GPUs, whichever is larger."""
        return max(len(self.gpus), self.expected)

    @property
    def network_bps(self) -> float | None:
        """The sum of the received and sent bytes per second, as far as they are known; None if neither is."""
        known = [rate for rate in (self.rx_bps, self.tx_bps) if rate is not None]
        return sum(known) if known else None

    @property
    def never_reached(self) -> bool:
        """True if no attempt to connect has succeeded: such a node is unreachable, not lost."""
        return self.state == "lost" and self.node.hello is None

    @property
    def trouble(self) -> str:
        """The most severe condition as a sentence; "" if there is none."""
        return self.conditions[0].sentence if self.conditions else ""


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _known(name: str, gpus: Iterable[Gpu], now: float) -> list[float]:
    metric = METRICS[name]
    return [value for gpu in gpus if (value := metric.read(gpu, now)) is not None]


def _severities(conditions: Iterable[Condition]) -> list[Severity]:
    return [condition.severity for condition in conditions]


def _node_severity(state: NodeState, conditions: list[Condition]) -> Severity:
    return max([STATE_SEVERITY[state], *_severities(conditions)], key=severity_level)


def summarise(node: Node, thresholds: Thresholds, now: float) -> NodeView:
    """Return the summary of a node at `now` (monotonic seconds).

    Lost and stuck GPUs are not part of the means: their values are old.
    """
    gpus = node.gpu_list()
    answering = [gpu for gpu in gpus if gpu.state == "ok"]
    state = node.state(now)
    conditions = list(node_conditions(node, thresholds, now))
    severities: dict[str, Severity] = {}
    for gpu in gpus:
        own = gpu_conditions(gpu, node, thresholds, now)
        conditions += own
        severities[gpu.info.uuid] = max(_severities(own), key=severity_level, default="ok")
    conditions.sort(key=by_gravity)
    stuck = sum(gpu.state == "stuck" for gpu in gpus)
    unanswered = sum(gpu.state == "unanswered" for gpu in gpus)
    utils, temps, powers = (_known(name, answering, now) for name in ("util", "temp", "power"))
    cpu, host_memory, rx, tx = (NODE_METRICS[name].read(node, now) for name in ("cpu", "hostmem", "rx", "tx"))
    running = state != "live" or len(answering) < len(gpus)  # their words count seconds
    until = now + (RUNNING_S if running else QUIET_S)
    if state == "live" and node.received_at is not None:
        until = min(until, node.received_at + STALE_TICKS * node.interval_s)
    return NodeView(
        node,
        node.name,
        state,
        _node_severity(state, conditions),
        now,
        until,
        (node.version, state, now if running else 0.0),
        gpus,
        severities,
        conditions,
        ok=len(answering),
        stuck=stuck,
        unanswered=unanswered,
        expected=node.gpus_expected(),
        lost=node.gpus_expected() - len(answering) - stuck - unanswered if gpus else 0,
        util_mean=_mean(utils),
        util_min=min(utils, default=None),
        memory_pct=_mean(_known("mem", answering, now)),
        power_w=sum(powers) if powers else None,
        temperature_max=max(temps, default=None),
        cpu_pct=cpu,
        host_memory_pct=host_memory,
        rx_bps=rx,
        tx_bps=tx,
    )


class Totals(Struct, frozen=True):
    """The numbers of nodes, GPUs and conditions of the fleet, by state or severity, and its conditions."""

    states: dict[NodeState, int]
    unreachable: int
    """Number of nodes never reached, whose first attempt is over; not in `states`."""
    ok: int
    stuck: int
    unanswered: int
    lost: int
    expected: int
    worst: list[tuple[str, Condition]]
    """(node, condition), the most severe first."""
    warnings: int
    criticals: int
    listed: list[tuple[list[str], Condition, str]] = field(default_factory=list)
    """(nodes, condition, its text) as in `worst`; nodes that were never reached for one reason are merged."""


def _listed(
    worst: list[tuple[str, Condition]], views: Mapping[str, NodeView]
) -> list[tuple[list[str], Condition, str]]:
    """Return (nodes, condition, text) of each condition; nodes never reached for one reason are together."""
    found: list[tuple[list[str], Condition, str]] = []
    alike: dict[str, list[str]] = {}
    for name, condition in worst:
        node, text, names = views[name].node, condition.sentence, [name]
        if condition.code == "node_lost" and node.hello is None:
            text = general_reason(text, node)
            if text in alike:
                alike[text].append(name)
                continue
            alike[text] = names
        found.append((names, condition, text))
    return [(names, c, c.sentence if len(names) == 1 else text) for names, c, text in found]


WAITING_SHARE = 8
"""At most one in this many nodes, or 16 nodes, are judged again per frame only because time has passed."""


class Overview:
    """The summaries of all nodes; `refresh` updates them."""

    def __init__(self) -> None:
        self.views: dict[str, NodeView] = {}
        self.version = 0
        """Increases when any summary changed."""
        self._fleet: Fleet | None = None
        self._versions: dict[str, int] = {}

    def refresh(self, fleet: Fleet, now: float) -> bool:
        """Summarise the nodes that have changed and some with an old summary; return True if any were."""
        return complete(self.refreshing(fleet, now))

    def refreshing(self, fleet: Fleet, now: float) -> Steps[bool]:
        """Do what `refresh` does, in steps of one node."""
        if fleet is not self._fleet:
            self._fleet, self.views, self._versions = fleet, {}, {}
        thresholds, views, versions = fleet.plan.thresholds, self.views, self._versions
        moved, waiting = False, []
        for name, node in list(fleet.nodes.items()):
            view = views.get(name)
            if view is None or versions[name] != node.version:
                versions[name], moved = node.version, True
                views[name] = summarise(node, thresholds, now)
                yield
            elif now > view.until:
                waiting.append(view)
        waiting.sort(key=lambda view: view.until)
        for view in waiting[: max(16, len(views) // WAITING_SHARE)]:
            views[view.name] = summarise(view.node, thresholds, now)
            yield
        moved = moved or bool(waiting)
        self.version += moved
        return moved

    def totals(self) -> Totals:
        """Return the sums over all nodes."""
        views = self.views.values()
        states: dict[NodeState, int] = {"live": 0, "connecting": 0, "stale": 0, "lost": 0}
        unreachable = sum(view.never_reached for view in views)
        for view in views:
            states[view.state] += not view.never_reached
        found = [(view.name, condition) for view in views for condition in view.conditions]
        found.sort(key=lambda pair: by_gravity(pair[1]))
        return Totals(
            states,
            unreachable,
            sum(v.ok for v in views),
            sum(v.stuck for v in views),
            sum(v.unanswered for v in views),
            sum(v.lost for v in views),
            sum(v.expected for v in views),
            found,
            warnings=sum(c.severity == "warning" for _, c in found),
            criticals=sum(c.severity in ("error", "critical") for _, c in found),
            listed=_listed(found, self.views),
        )
