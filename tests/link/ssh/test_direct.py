"""Output that a connection's own thread hands over, in place of a reader that wakes for each packet."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from gpuwatch.link.ssh.sockets.direct_pipe import BATCH_BYTES, DirectPipe
from gpuwatch.link.ssh.transport.bounded_transport import ReadAheadSocket
from tests.link.ssh.dial import dialing
from tests.link.watching import nothing_left
from tests.servers.sshd import Sshd

LONG = 5 << 20
"""More than twice the window of a channel: the server must be given its window back."""


def test_all_output_arrives_in_order_whatever_its_length(tmp_path: Path) -> None:
    with nothing_left(), Sshd(tmp_path) as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial(f"yes 0123456789 | head -c {LONG}")
        taken, threads = hashlib.sha256(), set[str]()

        def take(data: bytes) -> None:
            taken.update(data)
            threads.add(threading.current_thread().name)

        carrier.receive(take)
        whole = (b"0123456789\n" * (LONG // 11 + 1))[:LONG]
        assert taken.digest() == hashlib.sha256(whole).digest()
        assert carrier.exit_status(10.0) == 0
        carrier.close()


def test_errors_that_fill_the_window_do_not_stop_the_output(tmp_path: Path) -> None:
    with nothing_left(), Sshd(tmp_path) as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        line = "yes e | head -c 100000 >&2; echo out"
        carrier = dial(f'i=0; while [ "$i" -lt 60 ]; do {line}; i=$((i+1)); done; echo last >&2')
        pieces: list[bytes] = []
        carrier.receive(pieces.append)
        assert b"".join(pieces) == b"out\n" * 60
        assert carrier.stderr().endswith("last\n")
        carrier.close()


def test_what_the_function_raises_ends_the_output(tmp_path: Path) -> None:
    with nothing_left(), Sshd(tmp_path) as sshd, dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("while :; do echo out; sleep 0.05; done")

        def refuse(data: bytes) -> None:
            raise ValueError(data)

        with pytest.raises(ValueError, match="out"):
            carrier.receive(refuse)
        carrier.close()


def test_bytes_that_came_before_are_handed_over_first_and_readers_get_as_many_zeros() -> None:
    pipe = DirectPipe(lambda: False)
    pipe.feed(b"early ")
    taken: list[bytes] = []
    pipe.hand_to(taken.append)
    pipe.feed(b"late")
    assert (b"".join(taken), pipe.read_ready()) == (b"early late", False)
    pipe.feed(b"x" * BATCH_BYTES)
    assert pipe.read(1 << 20) == bytes(10 + BATCH_BYTES)
    pipe.close()
    assert pipe.read(1) == b""


class Pieces:
    """A socket whose reads return these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = [*pieces]

    def recv(self, limit: int) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        assert len(piece) <= limit
        return piece


def test_reading_ahead_gives_the_same_bytes() -> None:
    ahead = ReadAheadSocket(Pieces(b"0123456789", b"ab"))
    assert [ahead.recv(4) for _ in range(5)] == [b"0123", b"4567", b"89", b"ab", b""]
