"""When a first report is complete: every node has said everything once, or cannot."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gpuwatch.fleet.node import Gpu, Node
from gpuwatch.session import Session

POLL_S = 0.05


def settled(node: Node, now: float) -> bool:
    """The node has failed, or its inventory, host, processes and both quick tiers of each GPU have come."""
    if node.state(now) in {"lost", "stale"}:
        return True
    heard = node.hello is not None and node.host is not None and node.processes_at is not None
    return heard and all(_read_once(gpu) for gpu in node.gpus.values())


def _read_once(gpu: Gpu) -> bool:
    return gpu.state != "ok" or (gpu.fast is not None and gpu.medium is not None)


def unsettled(nodes: Sequence[Node], now: float) -> list[Node]:
    """The nodes that a report would still miss something of."""
    return [node for node in nodes if not settled(node, now)]


def wait_for_first_report(
    session: Session,
    longest_s: float,
    progress: Callable[[Sequence[Node], float], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Poll a started session until every node has settled, or for `longest_s` seconds.

    `progress` is told the nodes that are waited for and the seconds left, at every poll.
    """
    deadline = clock() + longest_s
    while True:
        session.poll()
        now = clock()
        missing = unsettled(list(session.fleet.nodes.values()), now)
        if not missing or now >= deadline:
            return
        progress(missing, deadline - now)
        pause(min(POLL_S, deadline - now))
