"""A dialer of one node that prepares its ssh connection with the first dial, after the session started."""

from __future__ import annotations

import threading

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.stream.carrier import Carrier, CarrierError
from gpuwatch.link.stream.options import LinkOptions


class OnDemandDialer:
    """Dials one node over ssh, without prompts: with keys of an ssh agent, or without a passphrase."""

    def __init__(self, spec: NodeSpec, options: LinkOptions) -> None:
        """Create the dialer; ssh_config and keys are read at the first dial."""
        self._spec, self._options = spec, options
        self._lock = threading.Lock()
        self._dialing: SshDialing | None = None
        self._closed = False

    def __call__(self, command: str) -> Carrier:
        """Log in and start a command.

        Raises:
            CarrierError: the login failed, or the dialer is closed.
        """
        with self._lock:
            if self._closed:
                raise CarrierError("closed")
            if self._dialing is None:
                self._dialing = SshDialing([self._spec], self._options, None)
            dialing = self._dialing
        return dialing.dialer(self._spec)(command)

    def close(self) -> None:
        """Close the connection and abort a login in progress."""
        with self._lock:
            self._closed = True
            dialing, self._dialing = self._dialing, None
        if dialing is not None:
            dialing.close()
