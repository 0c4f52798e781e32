"""Asking all nodes at once under which settings their ranks run."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.session.session import Session
from gpuwatch.wire import NodeSettings

ANSWER_S = 15.0
POLL_S = 0.05
USUAL_PORT = 29500


def ask_all(
    session: Session,
    longest_s: float = ANSWER_S,
    report: Callable[[int, int], None] = lambda _done, _all: None,
) -> dict[str, NodeSettings]:
    """What every live node answers within a time; nodes that cannot are left out.

    A node tries to reach the rendezvous of its own ranks: other jobs may use networks that it is not in.

    Args:
        session: Started, its first reports are there.
        longest_s: To wait at most.
        report: Called with how many have answered, of how many.
    """
    fleet = session.fleet
    live = [node for node in fleet.nodes.values() if node.state(time.monotonic()) == "live"]
    asked = [_asked(session, node) for node in live]
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not all(one.done for one in asked):
        session.poll()
        report(sum(one.done for one in asked), len(asked))
        time.sleep(POLL_S)
    answers = ((one.node, one.read(NodeSettings)[0]) for one in asked)
    return {node: reported for node, reported in answers if reported is not None}


def _asked(session: Session, node: Node) -> Asked:
    ranks = [process for process in node.processes if process.rank is not None]
    masters = sorted({process.master for process in ranks if process.master})
    pids = sorted(process.pid for process in ranks)
    return session.ask_rank_settings(node.name, masters, [USUAL_PORT], pids)
