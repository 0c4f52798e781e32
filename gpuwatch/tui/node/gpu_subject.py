"""One GPU of a node with its values as text, as the node and GPU screens paint them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from rich.style import Style

from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.tui.model.alert_snapshot import severity_shown, sign_shown
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.styles import StyleSet

THROTTLE_WORDS = {
    "power_cap": "power cap",
    "hw_slowdown": "HW slowdown",
    "sync_boost": "sync boost",
    "sw_thermal": "thermal (SW)",
    "hw_thermal": "thermal (HW)",
    "power_brake": "power brake",
    "display": "display clock",
}
"""Throttle reason -> its text; others are shown by name, but idle and application clocks are normal."""


class IncidentStart(Struct, frozen=True):
    """The start of an incident, which the plots mark."""

    at: float
    """Time when the incident began (unix seconds)."""
    age_s: float
    severity: Severity
    """The severity by whose colour it is painted: "unknown" once it is over or acknowledged."""
    sign: Severity
    """The severity of its sign."""


def incident_marks(node: Node, incidents: Iterable[Incident], wall: float) -> tuple[IncidentStart, ...]:
    """Return the incidents of a node and of the jobs that run there: active ones first, then by severity.

    `wall`: now, unix seconds.
    """
    jobs = {process.job for process in node.processes} - {None}
    own = [
        each
        for each in incidents
        if each.job in jobs or any(alert.node == node.name for alert in each.alerts)
    ]
    own.sort(key=lambda each: (each.over, ORDER.index(each.severity)))
    return tuple(
        IncidentStart(each.first, wall - each.first, severity_shown(each), sign_shown(each)) for each in own
    )


def mark_columns(marks: Iterable[IncidentStart], seconds: float, cells: int) -> dict[int, IncidentStart]:
    """Return column -> the first of `marks` that began there, on a plot of the last `seconds` in `cells`."""
    found: dict[int, IncidentStart] = {}
    for mark in marks:
        if 0.0 <= mark.age_s < seconds:
            found.setdefault(cells - 1 - int(mark.age_s * cells / seconds), mark)
    return found


def mark_styles(marks: Mapping[int, IncidentStart], look: StyleSet) -> dict[int, Style]:
    """Return column -> the style of the incident's mark."""
    return {column: look.severity[mark.severity] for column, mark in marks.items()}


class Subject(Struct, frozen=True):
    """A GPU with its node and the time, and its values as text."""

    gpu: Gpu
    node: Node
    view: NodeView
    now: float
    marks: tuple[IncidentStart, ...] = ()
    """Incidents to mark on its plots, the worst first."""

    @property
    def severity(self) -> Severity:
        """The severity of the GPU's worst condition; "unknown" if that is ok but the node is not live."""
        own = self.view.gpu_severity.get(self.gpu.info.uuid, "ok")
        return "unknown" if self.view.state != "live" and own == "ok" else own

    @property
    def old(self) -> bool:
        """True if the values are not current."""
        return self.gpu.state != "ok" or self.view.state != "live"

    def value(self, name: str) -> float | None:
        """Return a metric's last known value; None if unknown."""
        return METRICS[name].read(self.gpu, self.now)

    def text(self, name: str) -> str:
        """Return a metric's last known value as text."""
        return METRICS[name].format(self.value(name)).strip()

    def level(self, name: str) -> float | None:
        """Return a metric's position on its scale, 0 to 1; None if unknown."""
        return METRICS[name].level(self.gpu, self.now)

    def history(self, name: str, points: int) -> list[float | None]:
        """Return a metric's values in the last `points` seconds, one per second.

        None where unknown, and at every second of a metric without a stored history.
        """
        if METRICS[name].series is None:
            return [None] * points
        series = self.gpu.history.series(name, float(points), points, self.now)
        return [None if value != value else float(value) for value in series]  # noqa: PLR0124 - NaN is not itself

    def throttle(self) -> list[str]:
        """Return the throttle reasons in words, without those that are normal."""
        reasons = (self.gpu.fast.throttle if self.gpu.fast else None) or []
        return [
            THROTTLE_WORDS.get(reason, reason) for reason in reasons if reason not in ("idle", "app_clocks")
        ]
