"""Short ways to dial, for the tests of this folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.ssh.carrier import SshCarrier
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.stream.carrier import Carrier, CarrierError
from gpuwatch.link.stream.options import Ask, LinkOptions

WAIT_S = 240.0


@contextlib.contextmanager
def dialing(
    spec: NodeSpec, options: LinkOptions, ask: Ask | None = None
) -> Iterator[Callable[[str], SshCarrier]]:
    """A dialer for one node, closed at the end."""
    everyone = SshDialing([spec], options, ask)
    dial = everyone.dialer(spec)

    def typed(command: str) -> SshCarrier:
        carrier = dial(command)
        assert isinstance(carrier, SshCarrier)
        return carrier

    try:
        yield typed
    finally:
        everyone.close()


def states(spec: NodeSpec, options: LinkOptions, command: str = "echo in", ask: Ask | None = None) -> str:
    """What a command prints, or raises CarrierError."""
    with dialing(spec, options, ask) as dial:
        carrier = dial(command)
        try:
            return read_all(carrier).decode().strip()
        finally:
            carrier.close()


def refusal(spec: NodeSpec, options: LinkOptions, ask: Ask | None = None) -> CarrierError:
    """Why a node cannot be dialled."""
    with dialing(spec, options, ask) as dial:
        return failure(dial)


def failure(dial: Callable[[str], Carrier]) -> CarrierError:
    """Why this dialer fails."""
    try:
        carrier = dial("true")
    except CarrierError as error:
        return error
    carrier.close()
    raise AssertionError("it let us in")


def read_all(carrier: Carrier) -> bytes:
    """Everything until the command ends."""
    data = b""
    while chunk := carrier.recv(65536):
        data += chunk
    return data


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.02)


def renamed(spec: NodeSpec, name: str) -> NodeSpec:
    """The same node under another name of the ssh_config."""
    return replace(spec, name=name)
