"""Limits concurrent logins at one sshd, which refuses more than MaxStartups (default 10)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.stream.carrier import CarrierError

MAX_AT_ONCE, MIN_AT_ONCE = 10, 2
LEASE_S = 4.0
"""Seconds after which a slow login loses its turn; dead addresses are recognised soon."""


class UngreetedError(CarrierError):
    """Raised if the server closed the connection before the key exchange, as sshd does beyond MaxStartups."""


class _Turns(ConnectSlots):
    """The slots for logins at one sshd; fewer after each refusal, more after each login."""

    def narrow(self) -> None:
        """Lower the limit of concurrent logins by one, since the sshd refused one."""
        with self._changed:
            self._most = max(MIN_AT_ONCE, self._most - 1)

    def widen(self) -> None:
        """Raise the limit of concurrent logins by one, since the sshd accepted one."""
        with self._changed:
            self._most = min(MAX_AT_ONCE, self._most + 1)
            self._changed.notify()


class LoginTurns:
    """Limits the logins that run at the same time at each sshd."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        """Create the limits; `given_up` returns True if waiting should end (see `wake`)."""
        self._given_up = given_up
        self._lock = threading.Lock()
        self._turns: dict[object, _Turns] = {}

    @contextmanager
    def turn(self, host: ResolvedHost) -> Iterator[None]:
        """Run the `with` block as one login, once the sshd met first on the way to a host has a free slot.

        It runs without a slot if the logins were given up.
        """
        with self._lock:
            turns = self._turns.setdefault(_first_met(host), _Turns(MAX_AT_ONCE, LEASE_S))
        slot = turns.take(self._given_up)
        try:
            yield
        except UngreetedError:
            turns.narrow()
            raise
        else:
            turns.widen()
        finally:
            if slot is not None:
                turns.give(slot)

    def wake(self) -> None:
        """Make every thread that waits for a slot check `given_up` again."""
        with self._lock:
            every = list(self._turns.values())
        for turns in every:
            turns.wake()


def _first_met(host: ResolvedHost) -> object:
    """Return a key that is equal for hosts whose logins count at the same sshd (host or jump host).

    With a ProxyCommand, the command without the host's own name and port stands for its jump host.
    """
    if host.proxy_command is None:
        return host.proxy_jump, host.hostname, host.port
    words = host.proxy_command.split()
    own = {host.hostname, str(host.port), f"{host.hostname}:{host.port}", f"[{host.hostname}]:{host.port}"}
    return tuple(word for word in words if word not in own)
