"""Queries any processes of nodes for their stacks, ranks or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.session.session import Session
from gpuwatch.wire import ProcessStack, Stacks

MAX_PIDS = 64
"""Most processes per node that are queried; an agent accepts no more."""


def holders(node: Node) -> list[int]:
    """Return the pids of processes on a node that use a GPU but have no rank."""
    return [process.pid for process in node.processes if process.gpus and process.rank is None]


def ask_processes(
    session: Session,
    pids: Mapping[str, Collection[int]],
    py_spy: str | None,
    longest_s: float,
    poll: Callable[[], None],
) -> tuple[dict[tuple[str, int], ProcessStack], dict[str, str]]:
    """Request the stacks of processes and wait for the answers.

    Args:
        session: A started session.
        pids: Node -> pids; at most `MAX_PIDS` of each node are queried.
        py_spy: The path of py-spy on the nodes; empty: search for it there; None: do not use it.
        longest_s: Seconds after which a node that has not answered is given up.
        poll: Polls the session, and pauses.

    Returns:
        (node, pid) -> stacks; and node -> why it did not answer.
    """
    asked = [session.ask_stacks(node, sorted(own)[:MAX_PIDS], py_spy) for node, own in pids.items() if own]
    deadline = time.monotonic() + longest_s
    while not all(each.done for each in asked) and time.monotonic() < deadline:
        poll()
    found: dict[tuple[str, int], ProcessStack] = {}
    trouble: dict[str, str] = {}
    for each in asked:
        reported, why = each.read(Stacks)
        if reported is None:
            trouble[each.node] = why or f"no answer in {longest_s:.0f} s"
        else:
            found.update(((each.node, stack.pid), stack) for stack in reported.processes)
    return found, trouble
