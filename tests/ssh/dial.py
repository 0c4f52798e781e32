"""Short ways to dial, for the tests of this room."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gpuwatch.link.carrier import Carrier, Dialer
from gpuwatch.link.options import Ask, LinkOptions
from gpuwatch.link.ssh.dialing import SshDialing
from tests.sshd import Sshd


@contextlib.contextmanager
def dialing(sshd: Sshd, options: LinkOptions | None = None, ask: Ask | None = None) -> Iterator[Dialer]:
    """A dialer for an sshd's first name."""
    spec = sshd.spec()
    everyone = SshDialing([spec], options or sshd.client.options(), ask)
    try:
        yield everyone.dialer(spec)
    finally:
        everyone.close()


def read_all(carrier: Carrier) -> bytes:
    """Everything until the command ends."""
    data = b""
    while chunk := carrier.recv(65536):
        data += chunk
    return data
