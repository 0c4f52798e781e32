"""An ssh server that asks questions, of paramiko's server mode: sshd needs PAM and real passwords for it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_PARTIALLY_SUCCESSFUL, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.server import InteractiveQuery


@dataclass
class Asking:
    """What it asks and what it takes. Runs as a jump host: a direct-tcpip channel is relayed to 127.0.0.1."""

    methods: str = "keyboard-interactive"
    prompts: tuple[tuple[str, bool], ...] = (("Code: ", False),)
    answers: tuple[str, ...] = ("123456",)
    password: str = ""
    partial_key: bool = False
    """A key is needed first, any key."""
    asks_again: int = 0
    """So often it asks once more in the same login, whatever the answers are."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    """The answers of each keyboard-interactive request."""
    stalls: frozenset[str] = frozenset()
    """What it never answers: `login`, `channel`, `command`."""
    resumed: threading.Event = field(default_factory=threading.Event)
    """Set at the end: what stalls goes on."""
    port: int = 0
    logins: int = 0
    running: list[paramiko.Transport] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)


# ruff: noqa: ARG002  # the interface is paramiko's


class _Session(paramiko.ServerInterface):
    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._keyed = not asking.partial_key
        self.target: dict[int, tuple[str, int]] = {}

    def get_allowed_auths(self, username: str) -> str:
        return self._asking.methods if self._keyed else "publickey"

    def check_auth_none(self, username: str) -> int:
        self._stall("login")
        return AUTH_FAILED if self._asking.methods else AUTH_SUCCESSFUL

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if not self._asking.partial_key:
            return AUTH_FAILED
        self._keyed = True
        return AUTH_PARTIALLY_SUCCESSFUL

    def check_auth_password(self, username: str, password: str) -> int:
        return self._judge("password" in self._asking.methods and password == self._asking.password)

    def check_auth_interactive(self, username: str, submethods: str | bytes) -> int | InteractiveQuery:
        if not self._keyed or "keyboard-interactive" not in self._asking.methods:
            return AUTH_FAILED
        return InteractiveQuery("Second factor", "\x1b]0;evil\x07look", *self._asking.prompts)

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self._asking.asked.append(tuple(responses))
        if len(self._asking.asked) <= self._asking.asks_again:
            return InteractiveQuery("Second factor", "again", *self._asking.prompts)
        return self._judge(tuple(responses) == self._asking.answers)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self._stall("channel")
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._stall("command")
        return True

    def check_channel_direct_tcpip_request(
        self,
        chanid: int,
        origin: tuple[str, int],
        destination: tuple[str, int],
    ) -> int:
        self.target[chanid] = destination
        return OPEN_SUCCEEDED

    def _stall(self, what: str) -> None:
        if what in self._asking.stalls:
            self._asking.resumed.wait()

    def _judge(self, right: bool) -> int:
        self._asking.logins += right
        return AUTH_SUCCESSFUL if right else AUTH_FAILED


@contextlib.contextmanager
def asking_server(asking: Asking, host_key: Path) -> Iterator[Asking]:
    """Serve until the end of the block."""
    key = paramiko.Ed25519Key.from_private_key_file(str(host_key))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asking.port = listener.getsockname()[1]
        accepting = threading.Thread(target=_accept, args=(listener, asking, key))
        accepting.start()
        try:
            yield asking
        finally:
            asking.resumed.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for transport in asking.running:
                transport.close()
            for thread in asking.threads:
                thread.join(60)


def _accept(listener: socket.socket, asking: Asking, key: paramiko.PKey) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            transport = paramiko.Transport(connection)
            transport.add_server_key(key)
            session = _Session(asking)
            asking.running.append(transport)
            with contextlib.suppress(paramiko.SSHException, EOFError):
                transport.start_server(event=threading.Event(), server=session)
            _spawn(asking, partial(_serve_channels, transport, session, asking))


def _serve_channels(transport: paramiko.Transport, session: _Session, asking: Asking) -> None:
    while transport.is_alive():
        channel = transport.accept(0.1)
        if channel is not None and channel.chanid in session.target:
            sock = socket.create_connection(session.target[channel.chanid])
            _spawn(asking, partial(_pump, sock.recv, channel.sendall, channel.close))
            _spawn(asking, partial(_pump, channel.recv, sock.sendall, sock.close))


def _pump(
    read: Callable[[int], bytes], write: Callable[[bytes], object], close: Callable[[], object]
) -> None:
    with contextlib.suppress(OSError, EOFError):
        while data := read(65536):
            write(data)
    close()


def _spawn(asking: Asking, work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, daemon=True)
    asking.threads.append(thread)
    thread.start()
