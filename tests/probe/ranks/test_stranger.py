"""A stranger on the node or the network, who reaches the store of a probe but not its links."""

from __future__ import annotations

import importlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from gpuwatch.probe.protocol import Note, Ready
from gpuwatch.probe.ranks.shared import store_barrier, store_server
from gpuwatch.probe.ranks.shared.store_barrier import meet, roll_call
from gpuwatch.probe.ranks.shared.store_client import (
    TAMPERED,
    Delays,
    StoreClient,
    StoreLostError,
    StoreTamperedError,
)
from gpuwatch.probe.ranks.shared.store_messages import (
    ANSWER,
    ASK,
    HEAD,
    MAX_UNKNOWN_BYTES,
    NONCE_BYTES,
    ForgedError,
    MessageSigner,
)
from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster

SECRET = "ab" * 32


@pytest.fixture
def port() -> Iterator[int]:
    """Where a store listens."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        store_server.host(listening.fileno(), SECRET)
        yield listening.getsockname()[1]


def client(port: int, secret: str = SECRET) -> StoreClient:
    return StoreClient("127.0.0.1", port, secret, 60.0)


def test_ranks_find_what_others_write(port: int) -> None:
    one, other = client(port), client(port)
    large = os.urandom(1 << 20)
    got: list[bytes | None] = []
    waiting = threading.Thread(target=lambda: got.append(one.get("key", 60.0)))
    waiting.start()
    other.set("key", large)
    waiting.join(60)
    assert got == [large]
    assert [one.add("count", 2), other.add("count", 3)] == [2, 5]
    assert one.wait(["key", "count"], 0.0)
    assert (other.delete("key"), other.delete("key")) == (True, False)
    assert not one.wait(["key"], 0.0)
    assert one.get("key") is None


def test_who_does_not_know_the_secret_reads_and_writes_nothing(port: int) -> None:
    rank = client(port)
    rank.set("group/all/0", b"address")
    stranger = StoreClient("127.0.0.1", port, "not the secret", 0.3)
    for attempt in (
        lambda: stranger.set("group/all/0", b"garbage"),
        lambda: stranger.delete("group/all/0"),
        lambda: stranger.get("group/all/0"),
    ):
        with pytest.raises(StoreLostError):
            attempt()
    assert rank.get("group/all/0") == b"address"


def test_bytes_that_no_rank_sends_end_their_own_connection_alone(port: int) -> None:
    rank = client(port)
    rank.set("key", b"value")
    too_long = HEAD.pack((MAX_UNKNOWN_BYTES + 1).to_bytes(4, "big"), bytes(32), bytes(32))
    for hostile in (
        os.urandom(4096),
        bytes(NONCE_BYTES) + too_long,
        bytes(NONCE_BYTES) + b"\xff" * HEAD.size,
    ):
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            connection.sendall(hostile)
            with suppress(ConnectionError):
                while connection.recv(4096):
                    pass  # until the store has closed it
    assert rank.get("key") == b"value"


def test_a_message_counts_in_its_own_place_and_way_alone() -> None:
    nonces = bytes(2 * NONCE_BYTES)
    sent = MessageSigner(SECRET, nonces, ASK)
    first, second = (sent.packed({"do": "add"}, value) for value in (b"1", b"2"))

    def opened(message: bytes, signer: MessageSigner) -> bytes:
        head, body = message[: HEAD.size], message[HEAD.size :]
        assert signer.length(head) == len(body)
        return signer.unpacked(head, body)[1]

    taken = MessageSigner(SECRET, nonces, ASK)
    assert opened(first, taken) == b"1"
    for wrong, signer in (
        (first, taken),  # once more
        (second, MessageSigner(SECRET, nonces, ASK)),  # without the first
        (first[:-1] + b"3", MessageSigner(SECRET, nonces, ASK)),
        (bytes([first[0] ^ 1]) + first[1:], MessageSigner(SECRET, nonces, ASK)),  # of another length
        (first, MessageSigner(SECRET, nonces, b"answer")),
        (first, MessageSigner(SECRET, bytes(31) + b"\1", ASK)),
    ):
        with pytest.raises(ForgedError):
            opened(wrong, signer)


def test_an_answer_that_comes_byte_by_byte_is_not_awaited_for_long() -> None:
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            nonces = connection.recv(NONCE_BYTES) + bytes(NONCE_BYTES)
            signer = MessageSigner(SECRET, nonces, ANSWER)
            connection.sendall(bytes(NONCE_BYTES) + signer.packed({"found": False}))
            for byte in signer.packed({}, bytes(1 << 20)):
                connection.sendall(bytes([byte]))
                if ended.wait(0.05):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        rank = StoreClient("127.0.0.1", listening.getsockname()[1], SECRET, 0.5)
        with pytest.raises(StoreLostError):
            rank.get("key")
        with pytest.raises(StoreLostError):
            rank.confirm()
        ended.set()


def test_a_rank_whose_answers_are_late_again_and_again_has_lost_the_store() -> None:
    """A usual share of the time is not counted: a probe of an hour over a slow network is well."""
    slow, delayed = Delays(0.0), Delays(0.0)
    assert not any(slow.add(0.2, float(at)) for at in range(3600))
    assert [delayed.add(9.0, 9.0 * at) for at in range(1, 5)] == [False, False, True, True]


def test_a_stranger_in_the_place_of_the_store_is_noticed() -> None:
    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(NONCE_BYTES)
            connection.sendall(
                os.urandom(NONCE_BYTES) + HEAD.pack(b"\0\0\0\4", bytes(32), bytes(32)) + b"{}\nx"
            )
            connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        with pytest.raises(StoreTamperedError, match=TAMPERED):
            client(listening.getsockname()[1]).reach(60.0)


@pytest.mark.parametrize("counter", ["join/0", "join/here"])
def test_a_rank_that_was_counted_before_it_came_is_noticed(counter: str, port: int) -> None:
    """Only another member of the probe can do that."""
    client(port).add(counter, 2)
    with pytest.raises(StoreTamperedError):
        roll_call(client(port), "join", 0, 2, 1.0)


@pytest.mark.parametrize(
    "answer",
    [b"null", b"\xff", b"[" * 100_000, b'["1"]', b"[true]", b"[2]", b"[-1]", b"[1, 1]", b"[1, 0]", b"1"],
)
def test_an_answer_that_is_no_list_of_ranks_is_noticed(answer: bytes, port: int) -> None:
    """Only another member of the probe can write it."""
    hostile = client(port)
    hostile.add("join/settled", 1)
    hostile.set("join/answer", answer)
    with pytest.raises(StoreTamperedError):
        roll_call(client(port), "join", 0, 2, 1.0)


def absent_of(store: StoreClient, rank: int, patience_s: float, answers: dict[int, object]) -> None:
    try:
        answers[rank] = roll_call(store, "join", rank, 3, patience_s)
    except StoreTamperedError as error:
        answers[rank] = error


@pytest.mark.parametrize("also_all", [False, True], ids=["own-count", "both-counts"])
def test_a_rank_that_a_member_removes_is_not_called_absent(
    also_all: bool, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 2 really is absent; a node of the probe wants rank 1 to be named."""
    monkeypatch.setattr(store_barrier, "GRACE_S", 0.5)
    answers: dict[int, object] = {}
    ranks = [threading.Thread(target=absent_of, args=(client(port), rank, 1.5, answers)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    hostile = client(port)
    while hostile.add("join/here", 0) < 2:
        pass
    hostile.delete("join/1")
    if also_all:
        hostile.add("join/here", -1)
    for rank in ranks:
        rank.join(60)
    assert any(isinstance(each, StoreTamperedError) for each in answers.values()), answers
    assert isinstance(answers[1], StoreTamperedError)


def test_two_ranks_exchange_a_note_and_an_absent_one_is_named(port: int) -> None:
    notes: list[str] = []
    other = threading.Thread(target=lambda: notes.append(meet(client(port), "pair/1", 1, 0, "theirs", 60.0)))
    other.start()
    assert meet(client(port), "pair/1", 0, 1, "ours", 60.0) == "theirs"
    other.join(60)
    assert notes == ["ours"]
    with pytest.raises(TimeoutError, match="rank 2 "):
        meet(client(port), "pair/2", 0, 2, "", 0.1)


def test_ranks_of_a_probe_meet_and_measure_beside_a_stranger() -> None:
    """With torch's own client, which could list and overwrite the keys of torch's own store."""
    need_torch()
    dist = importlib.import_module("torch.distributed")

    with Cluster([2], secret=SECRET) as cluster:
        with pytest.raises((RuntimeError, OSError)):
            dist.TCPStore(
                "127.0.0.1",
                cluster.port,
                is_master=False,
                wait_for_workers=False,
                timeout=timedelta(seconds=1),
            ).set("join/answer", "[1]")
        assert [type(each) for each in cluster.ready()] == [Ready, Ready]
        done = cluster.do("collective", collective="all_reduce", bytes=1 << 16)
        assert [each.error for each in done] == [None, None]
        done = cluster.do("bandwidth", pairs=[(0, 1)], bytes=1 << 16)
        assert [each.error for each in done] == [None, None]


def test_what_gloo_cannot_read_ends_no_rank() -> None:
    """Its errors are of many types: what a stranger sends to its own ports can be a length of memory."""
    broken = (
        "import torch.distributed as dist;"
        "dist.init_process_group = lambda *_, **__: (_ for _ in ()).throw(MemoryError('std::bad_alloc'));"
    )
    with Cluster([2], secret=SECRET, before=broken) as cluster:
        assert all("std::bad_alloc" in note.text for note in cluster.all_of(Note, 2))
        assert {rank.rank for rank in cluster.ready()} == {0, 1}
        done = cluster.do("bandwidth", pairs=[(0, 1)], bytes=1 << 12)
        assert [each.error for each in done] == [None, None]
