"""Connections that one thread reads, and what each of them does in a thread of its own."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from gpuwatch.link.ssh.transport import bounded_transport, shared_reader
from gpuwatch.link.ssh.transport.shared_transport import SharedTransport
from gpuwatch.link.stream.limits import TokenBucket
from tests.link.ssh.dial import dialing, until
from tests.link.watching import nothing_left
from tests.servers.sshd import Sshd

SIZE = 4 << 20
WHOLE = (b"0123456789\n" * (SIZE // 11 + 1))[:SIZE]
CIPHERS = {
    "gcm": ("Ciphers aes128-gcm@openssh.com",),
    "ctr, etm": ("Ciphers aes128-ctr", "MACs hmac-sha2-256-etm@openssh.com"),
    "ctr, no length in clear": ("Ciphers aes128-ctr", "MACs hmac-sha2-256"),
}


def transport_threads() -> Counter[str]:
    """Threads that read connections: the shared one, and those of one connection."""
    kinds = ("shared" if each.name == "ssh reader" else type(each).__name__ for each in threading.enumerate())
    return Counter(kind for kind in kinds if kind in ("shared", SharedTransport.__name__))


def test_one_thread_reads_all_connections(tmp_path: Path) -> None:
    with nothing_left(), Sshd(tmp_path) as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carriers = [dial("while :; do echo out; sleep 0.05; done") for _ in range(4)]
        taken: Counter[int] = Counter()
        readers = [
            threading.Thread(target=carrier.receive, args=(lambda data, n=n: taken.update({n: len(data)}),))
            for n, carrier in enumerate(carriers)
        ]
        for reader in readers:
            reader.start()
        until(lambda: transport_threads() == {"shared": 1}, "the threads of the connections end")
        before = taken.copy()
        until(lambda: all(taken[n] > before[n] for n in range(4)), "each is still read")
        carriers[0].close()
        until(lambda: not readers[0].is_alive(), "the closed one ends")
        before = taken.copy()
        until(lambda: all(taken[n] > before[n] for n in range(1, 4)), "the others are read")
        for carrier in carriers:
            carrier.close()
        for reader in readers:
            reader.join()


class Peer:
    """One end of a socket pair, and what was read from it."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.taken = b""
        self.reader = 0
        """The thread that read it."""

    def fileno(self) -> int:
        return self.ours.fileno()

    def take(self, data: bytes) -> bool:
        self.taken += data
        self.reader = threading.get_ident()
        return True

    def resume(self) -> None:
        self.ours.close()


def test_further_threads_read_what_is_too_much_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_reader, "FILLED_AT", 2)
    readers, peers = shared_reader.SharedReaders(2), [Peer() for _ in range(6)]
    for peer in peers:
        readers.adopt(peer)
        peer.theirs.send(b"news")
    until(lambda: all(peer.taken for peer in peers), "each is read")
    assert sorted(Counter(peer.reader for peer in peers).values()) == [3, 3]
    for peer in peers:
        peer.theirs.close()
    until(lambda: all(peer.ours.fileno() < 0 for peer in peers), "each is left")


@pytest.mark.parametrize("lines", CIPHERS.values(), ids=CIPHERS)
def test_keys_are_exchanged_again_on_the_way(tmp_path: Path, lines: tuple[str, ...]) -> None:
    limit = f"RekeyLimit {SIZE // 2}"
    sshd = Sshd(tmp_path, lines=(limit, *lines))
    with nothing_left(), sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial(f"yes 0123456789 | head -c {SIZE}")
        taken = hashlib.sha256()
        carrier.receive(taken.update)
        assert taken.digest() == hashlib.sha256(WHOLE).digest()
        assert carrier.exit_status(10.0) == 0
        carrier.close()


def test_questions_of_the_server_are_answered(tmp_path: Path) -> None:
    lines = ("ClientAliveInterval 1", "ClientAliveCountMax 1")
    sshd = Sshd(tmp_path, lines=lines)
    with nothing_left(), sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("echo first; sleep 4; echo last")
        pieces: list[bytes] = []
        carrier.receive(pieces.append)
        assert b"".join(pieces) == b"first\nlast\n"
        carrier.close()


def test_a_peer_with_too_many_packets_is_read_in_a_thread_that_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_transport, "PACKETS_BURST", 20.0)
    monkeypatch.setattr(bounded_transport, "PACKETS_PER_S", 100.0)
    monkeypatch.setattr(bounded_transport, "COMMON", TokenBucket(100.0, 20.0))
    with nothing_left(), Sshd(tmp_path) as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial(f"yes 0123456789 | head -c {SIZE}")
        threads = set[str]()
        taken = []

        def take(data: bytes) -> None:
            threads.add("shared" if threading.current_thread().name == "ssh reader" else "own")
            taken.append(len(data))

        carrier.receive(take)
        assert (sum(taken), threads) == (SIZE, {"shared", "own"})
        carrier.close()


def test_a_connection_states_that_its_bytes_wait_to_be_read(tmp_path: Path) -> None:
    with nothing_left(), Sshd(tmp_path) as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier, go_on = dial("while :; do echo out; sleep 0.05; done"), threading.Event()

        def take(_data: bytes) -> None:
            go_on.wait()

        reader = threading.Thread(target=carrier.receive, args=(take,))
        reader.start()
        until(carrier.waiting, "bytes wait while the function blocks")
        go_on.set()
        until(lambda: not carrier.waiting(), "they are read")
        carrier.close()
        reader.join()
        assert not carrier.waiting()
