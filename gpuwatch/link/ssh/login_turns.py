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
    """The server closed the connection before the key exchange, as sshd does beyond MaxStartups."""


class _Turns(ConnectSlots):
    """The limit falls by one after each refusal and rises by one after each login."""

    def narrow(self) -> None:
        """An sshd refused: lower the limit."""
        with self._changed:
            self._most = max(MIN_AT_ONCE, self._most - 1)

    def widen(self) -> None:
        """An sshd accepted: raise the limit."""
        with self._changed:
            self._most = min(MAX_AT_ONCE, self._most + 1)
            self._changed.notify()


class LoginTurns:
    """A turn for each login at an address; addresses are independent."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        """`given_up`: whether waiting should end; see `wake`."""
        self._given_up = given_up
        self._lock = threading.Lock()
        self._turns: dict[object, _Turns] = {}

    @contextmanager
    def turn(self, host: ResolvedHost) -> Iterator[None]:
        """Wait until few enough logins run at the first sshd on the way to a host."""
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
        """Make every waiter check `given_up` again."""
        with self._lock:
            every = list(self._turns.values())
        for turns in every:
            turns.wake()


def _first_met(host: ResolvedHost) -> object:
    """A key equal for hosts whose login the same sshd counts.

    With a ProxyCommand, that of the same jump host.
    """
    if host.proxy_command is None:
        return host.proxy_jump, host.hostname, host.port
    words = host.proxy_command.split()
    own = {host.hostname, str(host.port), f"{host.hostname}:{host.port}", f"[{host.hostname}]:{host.port}"}
    return tuple(word for word in words if word not in own)
