"""Ssh servers that break the protocol: raw bytes before the keys, and packets of paramiko's server mode."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED


@dataclass
class Hostile:
    """What it sends at which moment, and how many bytes or packets of it went out."""

    greeting: bytes | None = None
    """Sent in place of the protocol; None: it speaks the protocol."""
    flood: bytes = b""
    """Sent after the greeting, again and again."""
    after_keys: Callable[[paramiko.Transport], None] | None = None
    at_login: Callable[[paramiko.Transport], None] | None = None
    at_command: Callable[[paramiko.Channel], None] | None = None
    methods: str = ""
    """For the login; empty: it lets everybody in."""
    port: int = 0
    sent: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    """Set once the client has left a flood."""


# ruff: noqa: ARG002  # the interface is paramiko's


class _Session(paramiko.ServerInterface):
    def __init__(self, hostile: Hostile, transport: paramiko.Transport) -> None:
        self._hostile, self._transport = hostile, transport

    def get_allowed_auths(self, username: str) -> str:
        return self._hostile.methods

    def check_auth_none(self, username: str) -> int:
        return AUTH_FAILED if self._hostile.methods else AUTH_SUCCESSFUL

    def check_auth_interactive(self, username: str, submethods: str | bytes) -> int:
        if self._hostile.at_login is not None:
            self._hostile.at_login(self._transport)
        return AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._command, args=(channel,), daemon=True).start()
        return True

    def _command(self, channel: paramiko.Channel) -> None:
        if self._hostile.at_command is not None:
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._hostile.at_command(channel)
        self._hostile.ended.set()


@contextlib.contextmanager
def hostile_server(hostile: Hostile, host_key: Path) -> Iterator[Hostile]:
    """Serve until the end of the block."""
    key = paramiko.Ed25519Key.from_private_key_file(str(host_key))
    running: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hostile.port = listener.getsockname()[1]
        serving = threading.Thread(target=_serve, args=(listener, hostile, key, running))
        serving.start()
        try:
            yield hostile
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for transport in running:
                transport.close()
            serving.join(60)


def _serve(
    listener: socket.socket, hostile: Hostile, key: paramiko.PKey, running: list[paramiko.Transport]
) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            if hostile.greeting is not None:
                _flood(connection, hostile)
                continue
            transport = paramiko.Transport(connection)
            transport.add_server_key(key)
            running.append(transport)
            started = threading.Event()
            transport.start_server(event=started, server=_Session(hostile, transport))
            started.wait(60)
            if hostile.after_keys is not None and transport.is_active():
                hostile.after_keys(transport)


def _flood(connection: socket.socket, hostile: Hostile) -> None:
    assert hostile.greeting is not None
    with contextlib.suppress(OSError), connection:
        connection.sendall(hostile.greeting)
        while hostile.flood:
            hostile.sent += connection.send(hostile.flood)
    hostile.ended.set()


def packet(kind: int, *parts: int | str | bytes) -> paramiko.Message:
    """A packet of integers and strings."""
    message = paramiko.Message()
    message.add_byte(bytes([kind]))
    for part in parts:
        if isinstance(part, int):
            message.add_int(part)
        else:
            message.add_string(part)
    return message


def send(transport: Any, message: paramiko.Message) -> None:
    """Send a packet as it is; for paramiko's users there is no way to send one of their own."""
    transport._send_message(message)
