"""Lists and uses keys in an ssh-agent (draft-miller-ssh-agent).

paramiko's client shares one connection between threads without a lock, and takes its socket only from the
environment; here every request has its own connection, so logins sign in parallel and an agent may restart.
"""

from __future__ import annotations

import socket
import struct

import paramiko

_LIST, _KEYS = 11, 12
_SIGN, _SIGNATURE = 13, 14
_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}
_LIST_TIMEOUT_S = 5.0
_SIGN_TIMEOUT_S = 60.0  # an agent may ask the user to confirm
_MAX_ANSWER_BYTES = 1 << 20


class AgentError(paramiko.SSHException):
    """Raised if the agent does not answer, or refuses to sign."""


class AgentKey(paramiko.PKey):
    """A key whose private part an ssh-agent holds; the agent makes its signatures."""

    def __init__(self, agent_socket: str, blob: bytes, comment: str) -> None:
        self.public_blob: paramiko.pkey.PublicBlob | None = None
        self.comment = comment
        self._socket = agent_socket
        self._blob = blob

    def get_name(self) -> str:
        """Return the key's type."""
        return paramiko.Message(self._blob).get_text()

    def asbytes(self) -> bytes:
        """Return the public key in wire format."""
        return self._blob

    def can_sign(self) -> bool:
        """Return True."""
        return True

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> paramiko.Message:
        """Return the agent's signature of the data.

        Raises:
            AgentError: The agent does not answer or refuses.
        """
        flags = _FLAGS.get((algorithm or "").removesuffix("-cert-v01@openssh.com"), 0)
        request = bytes([_SIGN]) + _string(self._blob) + _string(data) + struct.pack(">I", flags)
        answer = _ask(self._socket, request, _SIGN_TIMEOUT_S)
        if answer.get_byte() != bytes([_SIGNATURE]):
            raise AgentError("ssh-agent refused to sign")
        return paramiko.Message(answer.get_binary())


def agent_keys(agent_socket: str | None) -> list[AgentKey]:
    """Return the keys of an agent, in its order; empty if there is no agent or it does not answer."""
    if agent_socket is None:
        return []
    try:
        answer = _ask(agent_socket, bytes([_LIST]), _LIST_TIMEOUT_S)
    except AgentError:
        return []
    if answer.get_byte() != bytes([_KEYS]):
        return []
    return [
        AgentKey(agent_socket, answer.get_binary(), answer.get_binary().decode(errors="replace"))
        for _ in range(answer.get_int())
    ]


def _ask(agent_socket: str, request: bytes, timeout_s: float) -> paramiko.Message:
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout_s)
            sock.connect(agent_socket)
            sock.sendall(_string(request))
            (length,) = struct.unpack(">I", _exactly(sock, 4))
            if length > _MAX_ANSWER_BYTES:
                raise AgentError("ssh-agent's answer is too long")
            return paramiko.Message(_exactly(sock, length))
    except OSError as error:
        raise AgentError(f"ssh-agent at {agent_socket} does not answer: {error}") from error


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise AgentError("ssh-agent closed the connection")
        data += chunk
    return data


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
