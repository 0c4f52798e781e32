"""The columns of the node table: values, widths, sort order, and which are dropped on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from gpuwatch.fleet.nodes import units
from gpuwatch.fleet.nodes.units import Quantity
from gpuwatch.number_text import UNKNOWN, age_text, ranges, watts_text
from gpuwatch.tui.model.node_summary import STATE_SEVERITY, NodeView, severity_level
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.text import link_words

Cell: TypeAlias = "tuple[str, Severity | None]"
"""Text, and a severity if the text has its colour."""
SortKey: TypeAlias = "float | str"


class NodeColumn(Struct, frozen=True):
    """One column of the node table."""

    name: str
    title: str
    width: int
    keep: int
    """Columns with higher values are kept longer on a narrow screen."""
    cell: Callable[[NodeView, float], Cell]
    sort: Callable[[NodeView, float], SortKey]
    falling: bool = True
    """True if the first sort puts the largest value first."""
    right: bool = True
    optional: bool = False
    """True if the column is shown only when the user selects it."""


class _Heading(NamedTuple):
    """Name, title, width and rank of a column; see `NodeColumn`."""

    name: str
    title: str
    width: int
    keep: int


def _number(
    heading: _Heading, quantity: Quantity, read: Callable[[NodeView], float | None], *, falling: bool = True
) -> NodeColumn:
    def cell(view: NodeView, _now: float) -> Cell:
        return quantity.format(read(view)).strip(), None

    def sort(view: NodeView, _now: float) -> SortKey:
        value = read(view)
        return (-1.0 if falling else float("inf")) if value is None else value

    return NodeColumn(*heading, cell, sort, falling)


def _text(heading: _Heading, cell: Callable[[NodeView, float], Cell]) -> NodeColumn:
    """Return a column of texts, which is sorted by them and shown when the user selects it."""
    return NodeColumn(*heading, cell, lambda v, n: cell(v, n)[0], falling=False, right=False, optional=True)


def _gpus(view: NodeView, _now: float) -> Cell:
    if not view.gpus and not view.expected:
        return (UNKNOWN if view.node.hello is None else "0"), None
    severity: Severity | None = "unknown" if view.unanswered else None
    return f"{view.node.gpus_present()}/{view.expected}", "critical" if view.lost or view.stuck else severity


def _age(view: NodeView, now: float) -> Cell:
    text = units.SECONDS.format(view.node.age(now)).strip()
    return text, None if view.state == "live" else "warning"


def _state(view: NodeView, _now: float) -> Cell:
    return view.state, STATE_SEVERITY[view.state]


def _by_severity(view: NodeView, _now: float) -> SortKey:
    return float(severity_level(view.severity))


DATED = frozenset(("xid", "gpu_lost", "gpu_stuck", "node_lost"))
"""Conditions whose cell shows the age of the evidence; the text of others states their duration."""


def _trouble(view: NodeView, now: float) -> Cell:
    if view.never_reached:
        return "unreachable", "critical"  # the reason stands whole among the problems, once for all nodes
    if not view.conditions:
        words = link_words(view.node, now)
        return words, "warning" if view.node.link.reason else "unknown"
    worst, age = view.conditions[0], view.conditions[0].evidence.age_s
    since = "" if age is None or worst.code not in DATED else f"{age_text(age + now - view.judged_at)} ago: "
    return since + view.trouble, worst.severity


def _standing(view: NodeView, _now: float) -> Cell:
    standing = view.node.standing
    if standing is None:
        return UNKNOWN, None
    return standing.state, "warning" if standing.is_broken else "info" if standing.is_out else None


def _jobs(view: NodeView, _now: float) -> Cell:
    return ",".join(sorted({each.job for each in view.node.processes if each.job})) or UNKNOWN, None


def _users(view: NodeView, _now: float) -> Cell:
    return ",".join(sorted({each.user for each in view.node.processes if each.user})) or UNKNOWN, None


def _ranks(view: NodeView, _now: float) -> Cell:
    return ranges(view.node.ranks_of_logs, 3) or UNKNOWN, None


def _bytes(view: NodeView) -> int:
    return sum(file.size or 0 for file in view.node.logs)


def _size(view: NodeView, _now: float) -> Cell:
    return units.MEMORY.format(float(_bytes(view))).strip(), None


def _silent_s(view: NodeView, now: float) -> float:
    """Return the seconds since a log file of the node last grew; `now` if none did.

    `now` is in the clock of `grown_at`.
    """
    return max(0.0, now - max((file.grown_at or 0.0 for file in view.node.logs), default=0.0))


def _last_line(view: NodeView, now: float) -> Cell:
    if not view.node.logs:
        return UNKNOWN, None
    age = age_text(_silent_s(view, now))
    return ("at end" if age == "0s" else f"-{age}"), None


q = units
COLUMNS: tuple[NodeColumn, ...] = (
    NodeColumn(
        "node",
        "node",
        10,
        100,
        lambda v, _n: (v.name, None),
        lambda v, _n: v.name,
        falling=False,
        right=False,
    ),
    NodeColumn("state", "state", 10, 40, _state, _by_severity, right=False),
    NodeColumn("gpus", "GPUs", 5, 99, _gpus, lambda v, _n: float(v.lost + v.stuck)),
    _number(_Heading("util", "util", 5, 98), q.PERCENT, lambda v: v.util_mean, falling=False),
    _number(_Heading("umin", "min", 5, 80), q.PERCENT, lambda v: v.util_min, falling=False),
    _number(_Heading("mem", "mem", 5, 90), q.PERCENT, lambda v: v.memory_pct),
    _number(
        _Heading("power", "power", 7, 85),
        q.Quantity("W", 7, 1000, watts_text),
        lambda v: v.power_w,
    ),
    _number(_Heading("temp", "max T", 6, 88), q.CELSIUS, lambda v: v.temperature_max),
    _number(_Heading("cpu", "CPU", 5, 70), q.PERCENT, lambda v: v.cpu_pct),
    _number(_Heading("hostmem", "RAM", 5, 50), q.PERCENT, lambda v: v.host_memory_pct),
    _number(_Heading("net", "net B/s", 7, 60), q.RATE, lambda v: v.network_bps),
    NodeColumn("age", "age", 5, 97, _age, lambda v, n: v.node.age(n) or 0.0),
    _text(_Heading("job", "job", 12, 65), _jobs),
    _text(_Heading("scheduler", "scheduler", 14, 63), _standing),
    _text(_Heading("user", "user", 10, 64), _users),
    NodeColumn(
        "ranks",
        "ranks",
        14,
        95,
        _ranks,
        lambda v, _n: float(len(v.node.ranks_of_logs)),
        right=False,
        optional=True,
    ),
    NodeColumn(
        "files",
        "files",
        5,
        94,
        lambda v, _n: (str(len(v.node.logs)), None),
        lambda v, _n: float(len(v.node.logs)),
        optional=True,
    ),
    NodeColumn("size", "size", 6, 60, _size, lambda v, _n: float(_bytes(v)), optional=True),
    NodeColumn("last", "last line", 9, 92, _last_line, lambda v, n: -_silent_s(v, n), optional=True),
    NodeColumn("trouble", "problem", 28, 96, _trouble, _by_severity, right=False),
)
"""All columns in screen order; the last one gets the remaining width."""
OF_LOGS = ("node", "ranks", "files", "size", "last", "trouble")
"""The columns if the nodes are known only from logs."""
MEANING_OF = {
    "umin": "util",
    "net": "node.rx",
    "cpu": "node.cpu",
    "hostmem": "node.hostmem",
    "gpus": "node.gpus",
    "age": "node.nodeage",
}
"""Column -> the name of its metric, where they differ."""
PROBLEM_EXTRA_COLUMNS = 16
"""Extra width of the trouble column before the state gets a column of its own."""
SORTS = tuple(column.name for column in COLUMNS if column.name != "trouble")


WIDTHS_OF_GROUPS = {"gpus": 9, "state": 12}
"""Widths of columns that show counts for a whole group, used in a table with lines for groups."""


def choose(
    width: int, name_width: int, wanted: Sequence[str] = (), *, groups: bool = False
) -> list[tuple[NodeColumn, int]]:
    """Return the columns that fit `width` cells, with their widths, in screen order; at least one.

    One cell separates two columns. Columns with a low `keep` are left out first; the problem column takes the
    remaining width.

    Args:
        width: Of the table.
        name_width: Of the longest node name.
        wanted: Names of columns in screen order; empty: the default ones.
        groups: Whether some lines stand for groups of nodes.
    """
    order = [by_name for name in wanted for by_name in COLUMNS if by_name.name == name]
    order = order or [column for column in COLUMNS if not column.optional]
    chosen: list[tuple[NodeColumn, int]] = []
    left = width - 2
    for column in sorted(order, key=lambda c: -c.keep):
        own = WIDTHS_OF_GROUPS.get(column.name, column.width) if groups else column.width
        need = (name_width if column.name == "node" else own) + 1
        if column.name == "state" and not wanted and left < need + PROBLEM_EXTRA_COLUMNS:
            continue  # a sentence about the trouble states more than the word for the state
        if need <= left or not chosen:
            chosen.append((column, min(need, max(2, left)) - 1))
            left -= need
    chosen.sort(key=lambda pair: order.index(pair[0]))
    if chosen[-1][0].name == "trouble":
        chosen[-1] = (chosen[-1][0], chosen[-1][1] + max(0, left))
    return chosen
