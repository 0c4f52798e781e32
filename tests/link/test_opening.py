"""A plan's links as a whole: which kind each node gets, and that closing many is quick and leaves nothing."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent.agent_link import AgentLink, LinkContext
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.dialers import dial_local
from gpuwatch.link.opening import Links, open_links
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.inbox import Inbox, LinkStatus
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.wire import Hello
from tests.counted_calls import calls_of
from tests.link.stub_agent import stub_agent
from tests.link.watching import Watcher, nothing_left, until
from tests.sentences import Sentences


class _SocketCarrier:
    """A carrier to a node that is connected and sends nothing."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def recv(self, limit: int) -> bytes:
        data = self._ours.recv(limit)
        if not data:
            self._ours.close()
            self._theirs.close()
        return data

    def send(self, data: bytes) -> None:
        self._ours.sendall(data)

    def stderr(self) -> str:
        return ""

    def exit_status(self, timeout_s: float) -> int | None:  # noqa: ARG002 - nothing runs
        return None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)


def test_200_links_close_at_once_whatever_they_are_doing() -> None:
    with nothing_left():
        inbox = Inbox()
        board = LinkContext(inbox, slots=ConnectSlots(150, lease_s=3600.0), modules=stub_agent())
        dialled: list[str] = []

        def dial(command: str) -> _SocketCarrier:
            dialled.append(command)
            if len(dialled) % 3 == 0:
                raise CarrierError("connection refused")
            return _SocketCarrier()

        links = Links([AgentLink(NodeSpec(f"n{n}"), dial, board) for n in range(200)], [], [board])
        links.start()
        until(lambda: len(dialled) >= 150, "links in every state")
        assert calls_of(links.close) < 200 * 200
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("link n")]


def _greeted(watcher: Watcher) -> set[str]:
    return {arrival.node for arrival in watcher.drain() if isinstance(arrival.what, Hello)}


def test_many_real_children_are_gone_after_close() -> None:
    with nothing_left():
        inbox = Inbox()
        board = LinkContext(inbox, modules=stub_agent())
        names = [f"n{n}" for n in range(12)]
        links = Links([AgentLink(NodeSpec(name), dial_local, board) for name in names], [], [board])
        links.start()
        watcher = Watcher(inbox)
        until(lambda: _greeted(watcher) == set(names), "a hello of every node")
        links.close()


def test_a_dialer_that_hangs_does_not_hold_up_the_end() -> None:
    with nothing_left():
        inbox, hang = Inbox(), threading.Event()

        def dial(_command: str) -> _SocketCarrier:
            hang.wait()
            return _SocketCarrier()

        class Dialing:
            def close(self) -> None:
                hang.set()

        board = LinkContext(inbox)
        links = Links([AgentLink(NodeSpec("n1"), dial, board)], [Dialing()], [board])  # type: ignore[arg-type]
        links.start()
        Watcher(inbox).next(LinkStatus)
        links.close()


def test_each_node_gets_its_kind_of_link_in_the_plans_order(sentences: Sentences) -> None:
    specs = (
        NodeSpec("a", link="command", command=("sh", "-c", "exit 3")),
        NodeSpec("d", link="demo"),
        NodeSpec("l", link="local"),
        NodeSpec("c", link="command", command=("no-such-program",)),
    )
    with nothing_left():
        inbox = Inbox()
        links = open_links(Plan(specs), inbox, LinkOptions())
        assert [link.node for link in links.all] == ["a", "d", "l", "c"]
        links.start()
        watcher = Watcher(inbox)
        sentences(watcher.next(LinkStatus, lambda s: s.phase == "lost", "c").reason)
        links.close()


@pytest.mark.parametrize("kind", ["local", "command", "demo"])
def test_paramiko_is_imported_only_for_ssh(kind: str) -> None:
    code = (
        "import sys; from gpuwatch.hosts.plan import NodeSpec, Plan; "
        "from gpuwatch.link.stream.inbox import Inbox; "
        "from gpuwatch.link.stream.options import LinkOptions; from gpuwatch.link.opening import open_links; "
        f"open_links(Plan((NodeSpec('n', link='{kind}', command=('true',)),)), Inbox(), LinkOptions()); "
        "sys.exit('paramiko' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
