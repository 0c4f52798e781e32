"""Conditions of a node and its GPUs that hold now, worst first. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.health import gpu_checks, node_checks
from gpuwatch.diagnose.health.gpu_checks import GpuCase
from gpuwatch.diagnose.model.condition import ORDER, Condition, Evidence
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import Event

XID_ACUTE_S = 3600.0
"""Seconds for which an Xid counts as current; for the rest of the day it is a note."""
XID_KEPT_S = 86_400.0


def node_conditions(node: Node, thresholds: Thresholds, now: float) -> list[Condition]:
    """Return the conditions of a node as a whole, without those of its GPUs, worst first."""
    found = [condition for check in node_checks.CHECKS for condition in check(node, thresholds, now)]
    return _sorted([*found, *_xid(node, None, None, now)])


def gpu_conditions(gpu: Gpu, node: Node, thresholds: Thresholds, now: float) -> list[Condition]:
    """Return the conditions of one GPU, worst first.

    Values older than three periods of their tier do not count.
    """
    case = GpuCase.of(gpu, node, thresholds, now)
    found = [condition for check in gpu_checks.CHECKS for condition in check(case)]
    return _sorted([*found, *_xid(node, gpu.info.uuid, gpu.info.index, now)])


def _sorted(conditions: list[Condition]) -> list[Condition]:
    if len(conditions) > 1:
        conditions.sort(key=lambda condition: ORDER.index(condition.severity))
    return conditions


def _xid(node: Node, uuid: str | None, index: int | None, now: float) -> Iterable[Condition]:
    """Yield the worst Xid of the last hour (the newest of equals), else the newest of the day as `info`.

    An Xid that follows from an earlier one (45 after 79) thus does not hide it.
    """
    if not node.events:
        return
    xids = [event for event in node.events if event.event == "xid" and event.gpu == uuid]
    aged = [(_event_age(node, event, now), event) for event in xids]
    aged = [(age, event) for age, event in aged if age is None or age <= XID_KEPT_S]
    acute = [(age, event) for age, event in aged if age is None or age <= XID_ACUTE_S]
    if not aged:
        return
    if acute:
        age, event = min(acute, key=lambda each: (ORDER.index(each[1].severity), -each[1].t))
    else:
        age, event = max(aged, key=lambda each: each[1].t)
    text = event.title if event.code is None else f"Xid {event.code}: {event.title}"
    stated = (event.detail or f"reported by {event.source or 'the agent'}").rstrip(".")
    evidence = Evidence(stated, age_s=age)
    yield Condition("xid", event.severity if acute else "info", text, evidence, index)


def _event_age(node: Node, event: Event, now: float) -> float | None:
    """Return the age of an event in seconds, by the node's clock; None: unknown."""
    own_time = node.own_time(now)
    return None if own_time is None else max(0.0, own_time - event.t)
