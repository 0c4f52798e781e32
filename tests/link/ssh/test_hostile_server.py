"""A server, or whoever answers in its place, that breaks the bounds of ssh ends its link alone."""

from __future__ import annotations

import contextlib
import struct
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.ssh.transport import bounded_transport
from gpuwatch.link.ssh.transport.bounded_transport import (
    MAX_GREETING_BYTES,
    MAX_PACKET_BYTES,
    MAX_TEXT,
    BoundedPacketizer,
    BoundedTransport,
)
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.limits import TokenBucket
from tests.link.ssh.dial import dialing, read_all, refusal, until
from tests.link.ssh.hostile_server import Hostile, hostile_server, packet, send
from tests.link.ssh.login.asked import Asked
from tests.servers.sshd import Client, make_key, public_key

BUFFERS = 16 << 20
"""Bytes that sockets of the loopback hold at most."""
GREETING = b"SSH-2.0-OpenSSH_9.6\r\n"
IGNORE, DEBUG, EXT_INFO, NEW_KEYS, INFO_REQUEST, GLOBAL_REQUEST, DATA, ERRORS = 2, 4, 7, 21, 60, 80, 94, 95
ENDLESS = 0xFFFFFFFF


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "client")


@pytest.fixture
def host_key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "host")


def known(client: Client, hostile: Hostile, key: Path) -> NodeSpec:
    client.add_host("hostile", hostile.port, "ada")
    client.trust(f"[127.0.0.1]:{hostile.port} {public_key(key)}")
    return NodeSpec("hostile")


def transport_threads() -> int:
    return sum(isinstance(each, paramiko.Transport) for each in threading.enumerate())


@pytest.mark.parametrize(
    ("greeting", "flood", "most"),
    [
        (b"", b"x" * 65536, MAX_GREETING_BYTES),
        (b"", b"x" * 200 + b"\r\n", MAX_GREETING_BYTES),
        (GREETING, struct.pack(">IB", 0x7FFFFFFC, 4) + bytes(65531), MAX_PACKET_BYTES),
    ],
)
def test_bytes_before_the_host_is_known_are_bounded(
    client: Client, host_key: Path, greeting: bytes, flood: bytes, most: int
) -> None:
    hostile = Hostile(greeting=greeting, flood=flood)
    with hostile_server(hostile, host_key):
        refusal(known(client, hostile, host_key), client.options())
        assert hostile.ended.wait(60)
    assert hostile.sent <= most + BUFFERS


def test_a_list_without_an_end_holds_no_thread(client: Client, host_key: Path) -> None:
    """It comes before the host's key is judged."""
    hostile = Hostile(
        after_keys=lambda transport: send(transport, packet(EXT_INFO, ENDLESS)), methods="publickey"
    )
    with hostile_server(hostile, host_key):
        before = transport_threads()
        refusal(known(client, hostile, host_key), client.options())
        until(lambda: transport_threads() <= before + 1, "the client's thread ends")


def test_prompts_without_an_end_fill_no_memory(client: Client, host_key: Path) -> None:
    hostile = Hostile(
        methods="keyboard-interactive",
        at_login=lambda transport: send(transport, packet(INFO_REQUEST, "t", "i", "", ENDLESS)),
    )
    with hostile_server(hostile, host_key):
        before = transport_threads()
        refusal(known(client, hostile, host_key), client.options(ask_password=True), Asked("s3cret"))
        until(lambda: transport_threads() <= before + 1, "the client's thread ends")


@pytest.mark.parametrize("kind", [DATA, ERRORS])
def test_data_beyond_the_window_ends_the_link(client: Client, host_key: Path, kind: int) -> None:
    def flood(channel: paramiko.Channel) -> None:
        started.wait(60)
        parts = (channel.remote_chanid, *((1,) if kind == ERRORS else ()), b"x" * 32_000)
        transport = channel.get_transport()
        while transport.is_active():
            send(transport, packet(kind, *parts))
            hostile.sent += 32_000

    started, hostile = threading.Event(), Hostile(at_command=flood)
    with (
        hostile_server(hostile, host_key),
        dialing(known(client, hostile, host_key), client.options()) as dial,
    ):
        carrier = dial("true")
        started.set()
        assert hostile.ended.wait(60)
        with pytest.raises(OSError, match="window"):
            while carrier.recv(65536):
                pass
        carrier.close()
    assert hostile.sent <= (8 << 20) + BUFFERS


def test_key_exchanges_without_an_end_end_the_link(client: Client, host_key: Path) -> None:
    def again(channel: paramiko.Channel) -> None:
        started.wait(60)
        transport = channel.get_transport()
        while transport.is_active():
            transport.renegotiate_keys()
            hostile.sent += 1

    started, hostile = threading.Event(), Hostile(at_command=again)
    with (
        hostile_server(hostile, host_key),
        dialing(known(client, hostile, host_key), client.options()) as dial,
    ):
        carrier = dial("true")
        started.set()
        with pytest.raises(OSError, match="keys"):
            carrier.recv(65536)
        carrier.close()
    assert hostile.sent < 100


def test_packets_without_an_end_are_read_at_a_pace(
    client: Client, host_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes time of the process that shows all nodes, whatever it holds."""
    monkeypatch.setattr(bounded_transport, "PACKETS_BURST", 100.0)
    monkeypatch.setattr(bounded_transport, "COMMON", TokenBucket(100.0, 100.0))

    def chatter(channel: paramiko.Channel) -> None:
        started.wait(60)
        for _ in range(1000):
            send(channel.get_transport(), packet(IGNORE, b""))
        channel.sendall(b"in")
        channel.close()

    started, hostile = threading.Event(), Hostile(at_command=chatter)
    with (
        hostile_server(hostile, host_key),
        dialing(known(client, hostile, host_key), client.options()) as dial,
    ):
        carrier = dial("true")
        packets: Any = next(
            each.packetizer for each in threading.enumerate() if isinstance(each, BoundedTransport)
        )
        started.set()
        assert read_all(carrier) == b"in"
        carrier.close()
    assert packets.pauses


def test_floods_of_many_peers_share_what_is_read_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """They all take the time of one process; a peer that sends little waits for none of them."""
    monkeypatch.setattr(bounded_transport, "COMMON", TokenBucket(0.0, 3000.0))
    connection = SimpleNamespace(_channels={})
    peers = [BoundedPacketizer(None, cast("paramiko.Transport", connection)) for _ in range(19)]
    taken = [sum(peer.within_pace() for _ in range(4000)) for peer in peers[1:]]
    assert sum(taken) < 18 * 2 * bounded_transport.PACKETS_BURST + 3000
    assert all(peers[0].within_pace() for _ in range(100))


@pytest.mark.parametrize("kind", [DEBUG, GLOBAL_REQUEST, DATA])
def test_a_length_that_is_not_there_is_not_made_up(client: Client, host_key: Path, kind: int) -> None:
    """Of 1 MiB, which paramiko would fill with zeros for a packet of some bytes, and print byte by byte."""
    claimed = (1 << 20) - 1

    def disturb(channel: paramiko.Channel) -> None:
        started.wait(60)
        for _ in range(2000):
            message = packet(kind)
            message.add_bytes(b"\0" if kind == DEBUG else b"")
            message.add_bytes(struct.pack(">II", channel.remote_chanid, claimed)[4 * (kind != DATA) :])
            send(channel.get_transport(), message)
        channel.close()

    started, hostile = threading.Event(), Hostile(at_command=disturb)
    with (
        hostile_server(hostile, host_key),
        dialing(known(client, hostile, host_key), client.options()) as dial,
    ):
        carrier = dial("true")
        started.set()
        data = b""
        with contextlib.suppress(OSError):
            while chunk := carrier.recv(65536):
                data += chunk
        carrier.close()
    assert data == b""


@pytest.mark.parametrize("kind", [200, NEW_KEYS, INFO_REQUEST])
def test_a_packet_that_has_no_place_there_ends_the_link(client: Client, host_key: Path, kind: int) -> None:
    """paramiko's thread then fails with an error of any kind, which its users get."""

    def disturb(transport: paramiko.Transport) -> None:
        send(transport, packet(kind, b"x"))

    hostile = Hostile(methods="keyboard-interactive", at_login=disturb)
    with hostile_server(hostile, host_key):
        refusal(known(client, hostile, host_key), client.options(ask_password=True), Asked("s3cret"))
    hostile = Hostile(at_command=lambda channel: disturb(channel.get_transport()))
    with hostile_server(hostile, host_key):
        spec = known(client, hostile, host_key)
        with dialing(spec, client.options()) as dial, contextlib.suppress(CarrierError, OSError):
            carrier = dial("true")
            assert carrier.recv(65536) == b""
            carrier.close()


def test_a_long_text_of_the_server_is_cut(client: Client, host_key: Path) -> None:
    hostile = Hostile(methods=",".join(f"\x1b]0;m{n}\x07" for n in range(2000)))
    with hostile_server(hostile, host_key):
        error = refusal(known(client, hostile, host_key), client.options())
    assert len(str(error)) < MAX_TEXT + 1000
    assert "\x1b" not in str(error)
