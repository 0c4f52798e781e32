"""Logins under way at one sshd, which refuses more than MaxStartups (10, by default) at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.stream.carrier import CarrierError

MAX_AT_ONCE, MIN_AT_ONCE = 10, 2
LEASE_S = 4.0
"""A login that takes longer gives its turn up: names of a dead address are known to be dead soon."""


class UngreetedError(CarrierError):
    """The far side closed the connection before the key exchange, as sshd does beyond MaxStartups."""


class _Turns(ConnectSlots):
    """One less after each refusal, one more after each login."""

    def narrow(self) -> None:
        """An sshd refused: let fewer log in at once."""
        with self._changed:
            self._most = max(MIN_AT_ONCE, self._most - 1)

    def widen(self) -> None:
        """An sshd let one in."""
        with self._changed:
            self._most = min(MAX_AT_ONCE, self._most + 1)
            self._changed.notify()


class LoginTurns:
    """A turn for each login at an address; addresses do not wait for each other."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        """`given_up`: whether waiting is to end; see `wake`."""
        self._given_up = given_up
        self._lock = threading.Lock()
        self._turns: dict[object, _Turns] = {}

    @contextmanager
    def turn(self, host: ResolvedHost) -> Iterator[None]:
        """Wait until few enough log in at the sshd that is met first on the way to a host."""
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
        """Let every waiter ask again whether to give up."""
        with self._lock:
            every = list(self._turns.values())
        for turns in every:
            turns.wake()


def _first_met(host: ResolvedHost) -> object:
    """Equal for hosts whose login the same sshd counts: with a ProxyCommand, that of the same jump host."""
    if host.proxy_command is None:
        return host.proxy_jump, host.hostname, host.port
    words = host.proxy_command.split()
    own = {host.hostname, str(host.port), f"{host.hostname}:{host.port}", f"[{host.hostname}]:{host.port}"}
    return tuple(word for word in words if word not in own)
