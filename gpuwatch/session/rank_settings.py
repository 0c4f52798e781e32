"""Asking all nodes at once for the settings of their ranks and of their machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from gpuwatch.clock import SessionClock
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.pending_request import Answer, Asked
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
        live = _live(session)
        self.asked = [_asked(session, node) for node in live if nodes is None or node.name in nodes]

    @property
    def over(self) -> bool:
        """Whether every node has answered, or cannot."""
        return _all_done(self.asked)

    @property
    def answers(self) -> dict[str, NodeSettings]:
        """What has come, by node; nodes that cannot answer are left out."""
        return _answers(self.asked, NodeSettings)


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
    _wait(session, query.asked, longest_s, report)
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
    asked = [session.ask_system_settings(node.name) for node in _live(session)]
    _wait(session, asked, longest_s)
    return _answers(asked, SystemSettings)


def _live(session: SettingsRequests) -> list[Node]:
    now = session.clock.monotonic()
    return [node for node in session.fleet.nodes.values() if node.state(now) == "live"]


def _all_done(asked: Sequence[Asked]) -> bool:
    return all(one.done for one in asked)


def _wait(
    session: Session,
    asked: Sequence[Asked],
    longest_s: float,
    report: Callable[[int, int], None] = lambda _done, _all: None,
) -> None:
    """Poll until all have answered or cannot, at most for `longest_s` seconds."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not _all_done(asked):
        session.poll()
        report(sum(one.done for one in asked), len(asked))
        time.sleep(POLL_S)


def _answers(asked: Sequence[Asked], kind: type[Answer]) -> dict[str, Answer]:
    """What has come, by node; nodes that cannot answer are left out."""
    answers = ((one.node, one.read(kind)[0]) for one in asked)
    return {node: reported for node, reported in answers if reported is not None}
