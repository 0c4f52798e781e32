"""Reads the nodes' counters before, under and after the load: changes are evidence."""

from __future__ import annotations

from gpuwatch.probe.orchestration.stages.run import ProbeRun
from gpuwatch.probe.protocol import Count
from gpuwatch.probe.results import CounterChange

COUNTERS_TIMEOUT_S = 3.0
GAUGE = "="


def count(run: ProbeRun) -> None:
    """Request the counters of every node and wait a short time for them.

    Raises:
        FailedError: a node was lost.
        CancelledError: the user has cancelled.
    """
    wanted = {node: len(run.counters.get(node, ())) + 1 for node in run.inventories}
    count_meanwhile(run)
    until = run.clock() + COUNTERS_TIMEOUT_S
    while any(len(run.counters.get(node, ())) < many for node, many in wanted.items()):
        if not run.receive_aside(until):
            return


def count_meanwhile(run: ProbeRun) -> None:
    """Request the counters of every node; the answers are stored whenever they arrive."""
    run.pool.send(run.inventories, Count())


def compare(run: ProbeRun) -> None:
    """Set `results.counters` to the totals that changed and the gauges, of nodes with two readings."""
    run.results.counters = [
        change
        for node, readings in run.counters.items()
        if len(readings) > 1
        for change in _changes(node, readings)
    ]
    run.changed()


def _changes(node: str, readings: list[dict[str, float]]) -> list[CounterChange]:
    first, *loaded, last = readings
    under = loaded[-1] if loaded else last
    changes = []
    for name, before in first.items():
        if name.startswith(GAUGE):
            if name in under:
                changes.append(CounterChange(node, name, before, under[name]))
        elif name in last and last[name] != before:
            changes.append(CounterChange(node, name, before, last[name]))
    return changes
