"""The columns that a filter can use of a node and its GPU, by name: numbers with units, and text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from msgspec import Struct

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.fleet.nodes import units
from gpuwatch.fleet.nodes.last_ranks import ended_on_node, ended_ranks
from gpuwatch.fleet.nodes.metrics import METRICS, NODE_METRICS, Metric, NodeMetric
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.units import Quantity
from gpuwatch.hosts.validation.nearest_word import nearest
from gpuwatch.whole_number import SECONDS_OF
from gpuwatch.wire import Process

Numbers: TypeAlias = "tuple[float, ...] | None"
Words: TypeAlias = "tuple[str, ...] | None"
"""All values of a column (a GPU has several processes); None: unknown, (): known to have none."""

_Value = TypeVar("_Value", float, str)

REASONS = (
    "idle", "app_clocks", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "power_brake",
    "display",
)  # fmt: skip
LABEL = "label."


class NumberColumn(Struct, frozen=True):
    """A column that a filter compares as a number: its unit, and how its values are read."""

    quantity: Quantity
    read: Callable[[Node, Gpu | None, float], Numbers]


class WordColumn(Struct, frozen=True):
    """A column that a filter compares as text. `known`: the only values it can have, if they are fixed."""

    read: Callable[[Node, Gpu | None, float], Words]
    known: tuple[str, ...] = ()


Column: TypeAlias = NumberColumn | WordColumn


def find(name: str) -> Column | None:
    """Return the column that a filter names, by its name or an alias; None: there is none."""
    lowered = name.lower()
    if lowered.startswith(LABEL):
        key = name[len(LABEL) :]
        return WordColumn(lambda node, _gpu, _now: _one(node.spec.labels.get(key)))
    return COLUMNS.get(ALIASES.get(lowered, lowered))


def suggestion(name: str, among: Iterable[str]) -> str:
    """Return `, did you mean ...?` if a name in `among` is similar to `name`, else ""."""
    close = nearest(name.lower(), among, 0.5)
    return f", did you mean {close!r}?" if close else ""


# --------------------------------------------------------------------------- numbers

_NUMBER = pattern_of(r"([+-]?(?:\d{1,18}(?:\.(\d{0,9}))?|\.(\d{1,9})))\s*([a-zA-Z%°/]*)", re.ASCII)
_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def number(text: str, quantity: Quantity) -> tuple[float, float] | None:
    """Return (value in the column's unit, half of the last typed digit) of a number; None if invalid.

    `70G` is 70 GiB of memory or 70 GB/s of a rate; `1.5GHz`, `500ms`, `2m` (minutes), `95%` are accepted.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    factor = _factor(match[4], quantity)
    if factor is None:
        return None
    decimals = len(match[2] or match[3] or "")
    return float(match[1]) * factor, 0.5 * 10.0**-decimals * factor


def _factor(suffix: str, quantity: Quantity) -> float | None:
    if quantity is units.SECONDS:
        return SECONDS_OF.get(suffix.lower() or "s")
    if quantity.unit in ("%", "C"):
        return 1.0 if suffix.upper().removeprefix("°") in ("", quantity.unit) else None
    lowered, unit = suffix.lower(), quantity.unit.lower()
    if quantity is units.MEGAHERTZ:
        return {"": 1.0, "mhz": 1.0, "m": 1.0, "khz": 1e-3, "ghz": 1e3, "g": 1e3}.get(lowered)
    for ending in (unit, unit.removesuffix("/s"), "ib"):
        if ending and lowered.endswith(ending):
            lowered = lowered.removesuffix(ending)
            break
    power = _PREFIXES.get(lowered.removesuffix("i"))
    return None if power is None else float(quantity.kilo) ** power


# --------------------------------------------------------------------------- reading


def _one(value: str | None) -> Words:
    return None if value is None else (value,)


def _gpu_number(metric: Metric) -> NumberColumn:
    def read(_node: Node, gpu: Gpu | None, now: float) -> Numbers:
        if gpu is None or (gpu.state == "lost" and metric.name != "age"):
            return None
        value = metric.read(gpu, now)
        return None if value is None else (value,)

    return NumberColumn(metric.quantity, read)


def _node_number(metric: NodeMetric) -> NumberColumn:
    def read(node: Node, _gpu: Gpu | None, now: float) -> Numbers:
        value = metric.read(node, now)
        return None if value is None else (value,)

    return NumberColumn(metric.quantity, read)


def _processes(node: Node, gpu: Gpu | None) -> list[Process] | None:
    """Return the processes on a GPU, or of the whole node without a GPU; None: unknown."""
    if node.processes_at is None:
        return None
    if gpu is None:
        return node.processes
    uuid = gpu.info.uuid
    return [process for process in node.processes if any(hold.uuid == uuid for hold in process.gpus)]


def _of_processes(
    read_one: Callable[[Process], _Value | None],
) -> Callable[[Node, Gpu | None, float], tuple[_Value, ...] | None]:
    def read(node: Node, gpu: Gpu | None, _now: float) -> tuple[_Value, ...] | None:
        processes = _processes(node, gpu)
        if processes is None:
            return None
        return tuple(value for process in processes if (value := read_one(process)) is not None)

    return read


def _process_number(read_one: Callable[[Process], float | None]) -> NumberColumn:
    return NumberColumn(units.COUNT, _of_processes(read_one))


def _ranks(node: Node, gpu: Gpu | None, _now: float) -> Numbers:
    """Return the ranks of a GPU; without a GPU, those of the node. None: unknown.

    The ranks that last held a GPU are included if no rank holds it now. Those of a node without GPUs include
    the ended ranks of the jobs that ran there last, and the ranks of its log files.
    """
    processes = _processes(node, gpu)
    if gpu is None:
        ranks = node.ranks_of_logs.union(ended_on_node(node))
        return None if processes is None and not ranks else tuple(map(float, sorted(ranks)))
    if processes is None:
        return None
    own = [each.rank for each in processes if each.rank is not None]
    return tuple(map(float, [*own, *ended_ranks(node, gpu)]))


def _process_words(read_one: Callable[[Process], str | None]) -> WordColumn:
    return WordColumn(_of_processes(read_one))


def _of_gpu(read_one: Callable[[Gpu], str | None]) -> WordColumn:
    return WordColumn(lambda _node, gpu, _now: None if gpu is None else _one(read_one(gpu)))


def _of_node(read_one: Callable[[Node], str | None]) -> WordColumn:
    return WordColumn(lambda node, _gpu, _now: _one(read_one(node)))


def _names(node: Node, _gpu: Gpu | None, _now: float) -> Words:
    own = node.hello.host if node.hello else None
    return (node.name,) if own is None or own == node.name else (node.name, own)


def _state(node: Node, gpu: Gpu | None, now: float) -> Words:
    """Return the words for the state of a node or GPU: its state and synonyms.

    A state of the node other than live wins: no GPU of a stale node is `ok`.
    """
    node_state = node.state(now)
    if node_state != "live" or gpu is None:
        return (node_state,)
    return ("ok", "live") if gpu.state == "ok" else (gpu.state,)


def _reasons(_node: Node, gpu: Gpu | None, _now: float) -> Words:
    if gpu is None or gpu.state == "lost" or gpu.fast is None or gpu.fast.throttle is None:
        return None
    return tuple(gpu.fast.throttle)


def _index(_node: Node, gpu: Gpu | None, _now: float) -> Numbers:
    return None if gpu is None else (float(gpu.info.index),)


COLUMNS: dict[str, Column] = {
    **{name: _gpu_number(metric) for name, metric in METRICS.items()},
    **{name: _node_number(metric) for name, metric in NODE_METRICS.items()},
    "node": WordColumn(_names),
    "gpu": NumberColumn(units.COUNT, _index),
    "name": _of_gpu(lambda gpu: gpu.info.name),
    "uuid": _of_gpu(lambda gpu: gpu.info.uuid),
    "bus": _of_gpu(lambda gpu: gpu.info.bus_id),
    "driver": _of_node(lambda node: node.hello.driver if node.hello else None),
    "state": WordColumn(_state, ("ok", "live", "unanswered", "stuck", "lost", "stale", "connecting")),
    "reason": WordColumn(_reasons, REASONS),
    "recovery": _of_gpu(lambda gpu: None if gpu.slow is None else gpu.slow.recovery_action),
    "user": _process_words(lambda process: process.user),
    "job": _process_words(lambda process: process.job),
    "command": _process_words(lambda process: process.command or process.name),
    "container": _process_words(lambda process: process.container),
    "rank": NumberColumn(units.COUNT, _ranks),
    "pid": _process_number(lambda process: process.pid),
}
"""Every column by name; `label.KEY` columns exist in addition."""

ALIASES = {
    "host": "node",
    "hostname": "node",
    "power%": "powerpct",
    "mem%": "mem",
    "memory": "mem",
    "utilization": "util",
    "temperature": "temp",
    "model": "name",
    "index": "gpu",
    "cmd": "command",
    "clock": "smclk",
    "reasons": "reason",
}
