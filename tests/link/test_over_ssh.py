"""A link over a real sshd: through paramiko, and through the person's own ssh as a command link."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.agent.agent_link import AgentLink, LinkContext
from gpuwatch.link.agent.backoff import RetryPace
from gpuwatch.link.agent.call import CallTiming
from gpuwatch.link.command import CommandDialer
from gpuwatch.link.opening import Closable, Links
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.stream.carrier import Dialer
from gpuwatch.link.stream.inbox import Inbox, LinkStatus
from gpuwatch.wire import Hello, Sample
from tests.link.stub_agent import stub_agent
from tests.link.watching import Watcher, nothing_left, until
from tests.parts import need
from tests.sentences import Sentences
from tests.servers.sshd import Sshd

WAYS = ["paramiko", "ssh"]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "sshd", names=[f"n{n}" for n in range(8)]) as server:
        yield server


@contextmanager
def _watching(sshd: Sshd, way: str, nodes: int = 1, silence_s: float = 60.0) -> Iterator[Watcher]:
    inbox = Inbox()
    board = LinkContext(
        inbox,
        interval_s=0.1,
        timing=CallTiming(silence_s=silence_s),
        retry=RetryPace(first_s=0.05, most_s=0.1),
        modules=stub_agent(),
    )
    argv = (need("ssh"), "-F", str(sshd.client.config), "-T", "{address}")
    specs = [NodeSpec(name, command=argv) for name in sshd.names[:nodes]]
    dialing: list[Closable] = []
    dialers: list[Dialer] = [CommandDialer(spec) for spec in specs]
    if way == "paramiko":
        ssh = SshDialing([replace(spec, command=()) for spec in specs], sshd.client.options(), None)
        dialing.append(ssh)
        dialers = [ssh.dialer(spec) for spec in specs]
    pairs = zip(specs, dialers, strict=True)
    links = Links([AgentLink(spec, dialer, board) for spec, dialer in pairs], dialing, [board])
    with nothing_left():
        links.start()
        try:
            yield Watcher(inbox)
        finally:
            links.close()


@pytest.mark.parametrize("way", WAYS)
def test_nodes_go_live_and_nothing_stays_behind(sshd: Sshd, way: str) -> None:
    with _watching(sshd, way, nodes=8) as watcher:
        hellos: dict[str, int] = {}

        def greeted() -> bool:
            for arrival in watcher.drain():
                if isinstance(arrival.what, Hello):
                    hellos[arrival.node] = arrival.what.pid
            return len(hellos) == 8

        until(greeted, "a hello of all 8 nodes")
    until(lambda: not [pid for pid in hellos.values() if psutil.pid_exists(pid)], "the end of every agent")
    until(lambda: sshd.sessions() == [], "the end of every session")


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_session_or_agent_is_noticed_and_dialled_again(
    sshd: Sshd, way: str, sentences: Sentences
) -> None:
    """Only over its own connection gpuwatch can tell which of them was killed."""
    with _watching(sshd, way) as watcher:
        first = watcher.next(Hello).pid
        sshd.kill_sessions()
        session = watcher.lost().reason
        second = watcher.next(Hello).pid
        assert second != first
        os.kill(second, signal.SIGKILL)
        agent = watcher.lost().reason
        if way == "paramiko":
            assert agent != session
            sentences([session, agent])
        assert watcher.next(Hello).pid != second


@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_session_goes_on_or_is_replaced(sshd: Sshd, way: str, sentences: Sentences) -> None:
    with _watching(sshd, way, silence_s=2.5) as watcher:
        first = watcher.next(Hello).pid
        stopped = sshd.sessions()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: {psutil.Process(pid).status() for pid in stopped} == {"stopped"}, "all to be stopped")
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        watcher.drain().clear()
        watcher.next(Sample)
        assert not [arrival for arrival in watcher.seen if isinstance(arrival.what, LinkStatus)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        sentences(watcher.lost().reason)
        assert watcher.next(Hello).pid != first
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)


def test_a_refused_login_of_the_persons_own_ssh_is_quoted(sshd: Sshd) -> None:
    sshd.authorized_keys.write_text("")
    with _watching(sshd, "ssh") as watcher:
        assert "Permission denied (publickey)" in watcher.lost().reason


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_comes_back_is_found_again(sshd: Sshd, way: str) -> None:
    with _watching(sshd, way) as watcher:
        watcher.next(Hello)
        sshd.stop()
        assert watcher.lost().phase == "lost"
        sshd.restart()
        assert watcher.next(Hello).host == "stub"


def test_a_forced_command_is_shown_in_its_own_words(tmp_path: Path, sentences: Sentences) -> None:
    with (
        Sshd(tmp_path / "sshd", lines=["ForceCommand echo This account is for backups only"]) as sshd,
        _watching(sshd, "paramiko") as watcher,
    ):
        sentences(watcher.lost().reason)
