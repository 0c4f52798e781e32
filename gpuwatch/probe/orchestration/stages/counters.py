"""Counters of the nodes before, under and after the load: what moved is evidence."""

from __future__ import annotations

from gpuwatch.probe.orchestration.stages.run import ProbeRun
from gpuwatch.probe.protocol import Count
from gpuwatch.probe.results import CounterChange

READ_S = 3.0
GAUGE = "="


def count(run: ProbeRun) -> None:
    """Ask every node for its counters and wait for them, but not long.

    Raises:
        FailedError: a node was lost.
        CancelledError: the person has cancelled.
    """
    wanted = {node: len(run.counters.get(node, ())) + 1 for node in run.inventories}
    count_meanwhile(run)
    until = run.clock() + READ_S
    while any(len(run.counters.get(node, ())) < many for node, many in wanted.items()):
        if not run.receive_aside(until):
            return


def count_meanwhile(run: ProbeRun) -> None:
    """Ask every node for its counters; the answers are kept whenever they come."""
    run.pool.send(run.inventories, Count())


def compare(run: ProbeRun) -> None:
    """Fill `results.counters`: totals that moved, and gauges as they were under load."""
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
