"""Groups of nodes, and the table cells that describe a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.fleet.nodes import units
from gpuwatch.fleet.nodes.units import Quantity
from gpuwatch.number_text import UNKNOWN, plural, watts_text
from gpuwatch.tui.fleet.folding.ways import Folding
from gpuwatch.tui.model.node_summary import NodeView, severity_level
from gpuwatch.tui.model.severity import Severity

Cell: TypeAlias = "tuple[str, Severity | None]"
"""Text, and a severity if the text has its colour."""
Known: TypeAlias = "list[float]"
KILOWATTS = Quantity("W", 7, 1000, watts_text)
TROUBLED = severity_level("warning")
"""From this severity on, a node is listed under its folded group."""
MAX_LISTED = 5
"""Maximum number of nodes listed under a folded group; its line counts all."""


class NodeGroup(Struct, frozen=True):
    """The shown nodes of one group."""

    name: str
    views: list[NodeView]
    severity: Severity
    """The severity of its worst node."""
    troubled: list[NodeView]
    """The nodes of the group with a problem, the worst first."""


def grouped(views: Sequence[NodeView], way: Folding) -> list[NodeGroup]:
    """Return the groups in the order of their first nodes."""
    found: dict[str, list[NodeView]] = {}
    for view in views:
        found.setdefault(way.group_of.get(view.name, view.name), []).append(view)
    return [_group(name, members) for name, members in found.items()]


def _group(name: str, views: list[NodeView]) -> NodeGroup:
    levels = [severity_level(view.severity) for view in views]
    worst = views[levels.index(max(levels))].severity
    troubled = [view for view, level in zip(views, levels, strict=True) if level >= TROUBLED]
    troubled.sort(key=lambda view: -severity_level(view.severity))
    return NodeGroup(name, views, worst, troubled)


def worst_first(groups: Iterable[NodeGroup]) -> list[NodeGroup]:
    """Return the groups with problems first, the worst first, then the others in their order."""
    return sorted(groups, key=lambda group: -max(severity_level(group.severity), TROUBLED - 1))


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _gpus(group: NodeGroup, _now: float) -> Cell:
    present = sum(view.node.gpus_present() for view in group.views)
    expected = sum(view.expected for view in group.views)
    bad = any(view.lost or view.stuck for view in group.views)
    return f"{present}/{expected}" if expected else UNKNOWN, "critical" if bad else None


def _state(group: NodeGroup, _now: float) -> Cell:
    live = sum(view.state == "live" for view in group.views)
    return f"{live}/{len(group.views)} live", None if live == len(group.views) else "warning"


def _age(group: NodeGroup, now: float) -> Cell:
    return units.SECONDS.format(_most([view.node.age(now) for view in group.views])).strip(), None


def _of_live(
    quantity: Quantity, read: Callable[[NodeView], float | None], combine: Callable[[Known], float | None]
) -> Callable[[NodeGroup, float], Cell]:
    """Return a function that makes the cell of a quantity of a group.

    `read` returns the value of a node, and `combine` makes one of all. Only live nodes count: the values of
    the others are old.
    """

    def cell(group: NodeGroup, _now: float) -> Cell:
        known = [value for view in group.views if view.state == "live" and (value := read(view)) is not None]
        return quantity.format(combine(known) if known else None).strip(), None

    return cell


def _trouble(group: NodeGroup, _now: float) -> tuple[str, Severity | None]:
    """Return the cell with the number of nodes in each state and of live nodes with a problem.

    The number of nodes if all are live without one.
    """
    states = Counter("unreachable" if view.never_reached else view.state for view in group.views)
    words = [f"{number} {state}" for state, number in states.items() if state != "live" or len(states) > 1]
    troubled = len(group.troubled)
    live_troubled = sum(view.state == "live" for view in group.troubled)
    if live_troubled:
        words.append(f"{plural(live_troubled, 'node')} with problems")
    if not words:
        return plural(len(group.views), "node"), None
    return ", ".join(words), group.severity if troubled else "unknown"


_CELLS: dict[str, Callable[[NodeGroup, float], Cell]] = {
    "node": lambda group, _now: (group.name, None),
    "state": _state,
    "gpus": _gpus,
    "util": _of_live(units.PERCENT, lambda view: view.util_mean, fmean),
    "umin": _of_live(units.PERCENT, lambda view: view.util_min, min),
    "mem": _of_live(units.PERCENT, lambda view: view.memory_pct, fmean),
    "power": _of_live(KILOWATTS, lambda view: view.power_w, sum),
    "temp": _of_live(units.CELSIUS, lambda view: view.temperature_max, max),
    "cpu": _of_live(units.PERCENT, lambda view: view.cpu_pct, fmean),
    "hostmem": _of_live(units.PERCENT, lambda view: view.host_memory_pct, max),
    "net": _of_live(units.RATE, lambda view: view.network_bps, sum),
    "age": _age,
    "trouble": _trouble,
}


def cell_of(group: NodeGroup, column: str, now: float) -> Cell:
    """Return the cell (text, severity) of a group in a column of the node table; "" if groups have none."""
    make = _CELLS.get(column)
    return ("", None) if make is None else make(group, now)
