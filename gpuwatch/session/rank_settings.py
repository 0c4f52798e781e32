"""Queries all nodes for the settings of their ranks and machines."""

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
    """Interface of a session: requests for settings of nodes and ranks."""

    @property
    def fleet(self) -> Fleet:
        """The nodes and their processes."""
        ...

    @property
    def clock(self) -> SessionClock:
        """The clock that decides which nodes are live."""
        ...

    def ask_rank_settings(
        self, node: str, reach: Sequence[str] = (), ports: Sequence[int] = (), pids: Sequence[int] = ()
    ) -> Asked:
        """Request the settings of a node's ranks; the answer is a `wire.NodeSettings`."""
        ...


class SettingsQuery:
    """Queries live nodes for the settings of their ranks; poll the session until it is `over`. Non-blocking.

    A node tests the reachability of its own ranks' rendezvous only: other jobs may use other networks.
    """

    def __init__(self, session: SettingsRequests, nodes: Collection[str] | None = None) -> None:
        """Send the requests to the given nodes, or to all live ones (None).

        The session must be started and have its first reports.
        """
        live = _live(session)
        self.asked = [_asked(session, node) for node in live if nodes is None or node.name in nodes]

    @property
    def over(self) -> bool:
        """True if every node has answered or failed."""
        return _all_done(self.asked)

    @property
    def answers(self) -> dict[str, NodeSettings]:
        """Node -> its answer; nodes without an answer are left out."""
        return _answers(self.asked, NodeSettings)


def ask_all(
    session: Session,
    longest_s: float = ANSWER_S,
    report: Callable[[int, int], None] = lambda _done, _all: None,
) -> dict[str, NodeSettings]:
    """Return node -> rank settings of all live nodes that answer in time.

    Args:
        session: A started session that has its first reports.
        longest_s: Maximum seconds to wait.
        report: Called with the number of nodes that have answered, and the number of all.
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
    """Return node -> system settings of all live nodes that answer in time.

    Args:
        session: A started session that has its first reports.
        longest_s: Maximum seconds to wait.
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
    """Poll until all nodes have answered or failed, at most `longest_s` seconds."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and not _all_done(asked):
        session.poll()
        report(sum(one.done for one in asked), len(asked))
        time.sleep(POLL_S)


def _answers(asked: Sequence[Asked], kind: type[Answer]) -> dict[str, Answer]:
    """Return node -> answer; nodes without an answer are left out."""
    answers = ((one.node, one.read(kind)[0]) for one in asked)
    return {node: reported for node, reported in answers if reported is not None}
