"""Asking all nodes at once for the settings of their ranks and of their machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from gpuwatch.clock import SessionClock
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.session.session import Session
from gpuwatch.wire import NodeSettings, SystemSettings

ANSWER_S = 15.0
POLL_S = 0.05
USUAL_PORT = 29500


class SettingsRequests(Protocol):
    """The part of a session that asks nodes for settings."""

    @property
    def fleet(self) -> Fleet:
        """The nodes and their processes."""
        ...

    @property
    def clock(self) -> SessionClock:
        """By which the nodes are live."""
        ...

    def ask_rank_settings(
        self, node: str, reach: Sequence[str] = (), ports: Sequence[int] = (), pids: Sequence[int] = ()
    ) -> Asked:
        """The settings under which a node's ranks run (`wire.NodeSettings`)."""
        ...


class SettingsQuery:
    """Asks every live node at once; poll the session until it is `over`. It never blocks.

    A node tries to reach the rendezvous of its own ranks: other jobs may use networks that it is not in.
    """

    def __init__(self, session: SettingsRequests, nodes: Collection[str] | None = None) -> None:
        """`nodes`: only these; None: all. The session is started, its first reports are there."""
        fleet = session.fleet
        live = [node for node in fleet.nodes.values() if node.state(session.clock.monotonic()) == "live"]
        self.asked = [_asked(session, node) for node in live if nodes is None or node.name in nodes]

    @property
    def over(self) -> bool:
        """Whether every node has answered, or cannot."""
        return all(one.done for one in self.asked)

    @property
    def answers(self) -> dict[str, NodeSettings]:
        """What has come, by node; nodes that cannot answer are left out."""
        answers = ((one.node, one.read(NodeSettings)[0]) for one in self.asked)
        return {node: reported for node, reported in answers if reported is not None}


def ask_all(
    session: Session,
    longest_s: float = ANSWER_S,
    report: Callable[[int, int], None] = lambda _done, _all: None,
) -> dict[str, NodeSettings]:
    """What every live node answers within a time; nodes that cannot are left out.

    Args:
        session: Started, its first reports are there.
        longest_s: To wait at most.
        report: Called with how many have answered, of how many.
    """
    query = SettingsQuery(session)
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not query.over:
        session.poll()
        report(sum(one.done for one in query.asked), len(query.asked))
        time.sleep(POLL_S)
    return query.answers


def _asked(session: SettingsRequests, node: Node) -> Asked:
    ranks = [process for process in node.processes if process.rank is not None]
    masters = sorted({process.master for process in ranks if process.master})
    pids = sorted(process.pid for process in ranks)
    return session.ask_rank_settings(node.name, masters, [USUAL_PORT], pids)


def ask_all_systems(session: Session, longest_s: float = ANSWER_S) -> dict[str, SystemSettings]:
    """By node, what every live node answers within a time; nodes that cannot are left out.

    Args:
        session: Started, its first reports are there.
        longest_s: To wait at most.
    """
    live = [node.name for node in session.fleet.nodes.values() if node.state(time.monotonic()) == "live"]
    asked = [session.ask_system_settings(name) for name in live]
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not all(one.done for one in asked):
        session.poll()
        time.sleep(POLL_S)
    answers = ((one.node, one.read(SystemSettings)[0]) for one in asked)
    return {node: reported for node, reported in answers if reported is not None}
