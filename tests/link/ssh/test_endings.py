"""How connections end: killed, stopped, black-holed, closed; and that nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.options import LinkOptions
from tests.link.ssh.dial import dialing, failure, refusal, until
from tests.sentences import Sentences
from tests.servers.sshd import Client, Sshd


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """The test leaves no thread and no descriptor."""
    threads, files = set(threading.enumerate()), open_files()
    yield
    until(lambda: set(threading.enumerate()) <= threads, "our threads leave")
    until(lambda: open_files() <= files, "our descriptors close")


def open_files() -> set[str]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(f"{link.name} {link.readlink()}")
    return {name for name in found if "/proc/" not in name}


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port whose queue is full: connecting to it gets no answer."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_a_node_that_was_dialled_before_is_given_up_sooner(tmp_path: Path, black_hole: int) -> None:
    options = replace(Client(tmp_path).options(), connect_timeout_s=0.5, redial_timeout_s=0.25)
    with dialing(NodeSpec("silent", address="127.0.0.1", port=black_hole), options) as dial:
        first, later = failure(dial), failure(dial)
    assert f"{options.connect_timeout_s:g} s" in str(first)
    assert f"{options.redial_timeout_s:g} s" in str(later)


@pytest.mark.usefixtures("nothing_left")
def test_a_killed_session_is_noticed(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("cat")
        sshd.kill_sessions()
        assert carrier.recv(10) == b""
        with pytest.raises(OSError, match=r"gone|closed"):
            for _ in range(100):
                carrier.send(b"x" * 100)
        carrier.close()


@pytest.mark.usefixtures("nothing_left")
def test_close_ends_the_command_and_leaves_nothing(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carriers = [dial(f"echo $$; cat; touch {tmp_path}/ended-{n}") for n in range(3)]
        pids = [int(carrier.recv(100)) for carrier in carriers]
        for carrier in carriers:
            carrier.close()
            carrier.close()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the commands end")
        until(lambda: sshd.sessions() == [], "the sessions end")


@pytest.mark.usefixtures("nothing_left")
def test_close_wakes_a_blocked_recv_and_a_blocked_send(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        quiet, deaf = dial("cat"), dial("echo $$; exec sleep 600")
        never_reads = int(deaf.recv(100))
        with ThreadPoolExecutor(2) as pool:
            reading = pool.submit(quiet.recv, 10)
            writing = pool.submit(deaf.send, b"x" * 50_000_000)
            assert not reading.done()
            quiet.close()
            assert reading.result(10) == b""
            deaf.close()
            with pytest.raises(OSError):
                writing.result(10)
        os.kill(never_reads, signal.SIGTERM)


@pytest.mark.usefixtures("nothing_left")
def test_a_stopped_session_can_be_closed(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("cat")
        for pid in sshd.sessions():
            os.kill(pid, signal.SIGSTOP)
        closer = threading.Thread(target=carrier.close)
        closer.start()
        closer.join(60)
        assert not closer.is_alive()


@pytest.mark.usefixtures("nothing_left")
def test_a_stopped_server_fails_within_the_timeout(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd:
        os.kill(sshd.pid, signal.SIGSTOP)
        try:
            error = refusal(sshd.spec(), replace(sshd.client.options(), connect_timeout_s=0.3))
        finally:
            os.kill(sshd.pid, signal.SIGCONT)
        assert not error.final
        assert "MaxStartups" in str(error)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("jump", [None, "bastion"])
def test_silent_nodes_do_not_delay_others(tmp_path: Path, black_hole: int, jump: str | None) -> None:
    client = Client(tmp_path / "client")
    mute = socket.create_server(("127.0.0.1", 0))  # its kernel answers, nobody speaks
    with (
        mute,
        Sshd(tmp_path / "bastion", client=client, names=("bastion",)),
        Sshd(tmp_path / "node", client=client) as node,
    ):
        ports = [black_hole, *[mute.getsockname()[1]] * 10]
        specs = [
            NodeSpec(f"silent-{n}", address="node-1", port=port, jump=jump) for n, port in enumerate(ports)
        ]
        living = replace(node.spec(), jump=jump)
        everyone = SshDialing([*specs, living], replace(client.options(), connect_timeout_s=60.0), None)
        with ThreadPoolExecutor(len(specs)) as pool:
            waiting = [pool.submit(everyone.dialer(spec), "true") for spec in specs]
            carrier = everyone.dialer(living)("echo in")
            assert carrier.recv(10) == b"in\n"
            carrier.close()
            assert not any(future.done() for future in waiting)
            everyone.close()  # ends the logins that are under way
            assert all(isinstance(future.exception(120), CarrierError) for future in waiting)


@pytest.mark.usefixtures("nothing_left")
def test_a_server_that_is_no_ssh_server(sentences: Sentences) -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 400 \x1b]0;hi\x07Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        spec = NodeSpec("web", address="127.0.0.1", port=listener.getsockname()[1])
        error = refusal(spec, LinkOptions(connect_timeout_s=5.0, ssh_config="/dev/null"))
        thread.join()
    sentences(str(error))
    assert "\x1b" not in str(error)


@pytest.mark.usefixtures("nothing_left")
def test_a_restarted_server_takes_us_again(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("cat")
        sshd.stop()
        assert carrier.recv(10) == b""
        carrier.close()
        with pytest.raises(CarrierError) as refused:
            dial("true")
        assert not refused.value.final
        sshd.restart()
        carrier = dial("echo in")
        assert carrier.recv(10) == b"in\n"
        carrier.close()


@pytest.mark.usefixtures("nothing_left")
def test_closing_everything_ends_jump_hosts_too(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    with (
        Sshd(tmp_path / "bastion", client=client, names=("bastion",)) as bastion,
        Sshd(tmp_path / "node", client=client) as node,
    ):
        with dialing(replace(node.spec(), jump="bastion"), client.options()) as dial:
            dial("echo in; cat")
        until(lambda: node.sessions() == [] and bastion.sessions() == [], "the sessions end")


def test_idle_connections_cost_nothing(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd:
        everyone = SshDialing([sshd.spec()], sshd.client.options(), None)
        carriers = [everyone.dialer(sshd.spec())("cat") for _ in range(10)]
        try:
            switches = _switches()
            time.sleep(0.5)  # what is measured is the time in which nothing happens
            assert _switches() - switches < 20  # paramiko's own poll would make 50
        finally:
            for carrier in carriers:
                carrier.close()
            everyone.close()


def _switches() -> int:
    total = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            status = (task / "status").read_text()
            total += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total
