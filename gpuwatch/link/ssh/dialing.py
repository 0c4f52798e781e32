"""All of a plan's ssh nodes: what must happen before a screen starts, and then a dialer for each."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import partial

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.carrier import CarrierError, Dialer
from gpuwatch.link.options import Ask, LinkOptions
from gpuwatch.link.ssh.authentication import Answers
from gpuwatch.link.ssh.carrier import SshCarrier, start_command
from gpuwatch.link.ssh.connection import Connection, Credentials, log_in
from gpuwatch.link.ssh.handshake import HostKeyPolicy
from gpuwatch.link.ssh.jump import JumpHost
from gpuwatch.link.ssh.keyring import Keyring
from gpuwatch.link.ssh.routes import Route, Routes
from gpuwatch.link.ssh.streams import ProxyStream, Stream, TcpStream
from gpuwatch.link.ssh_config import ResolvedHost

Chain = tuple[ResolvedHost, ...]


class SshDialing:
    """Resolves configs, loads keys, asks what must be asked; afterwards nothing ever prompts."""

    def __init__(self, specs: Sequence[NodeSpec], options: LinkOptions, ask: Ask | None) -> None:
        self._options = options
        self._policy = HostKeyPolicy(options.accept_new_host_keys, options.ssh_config)
        self._routes = Routes(options.ssh_config).find(specs)
        routes = [route for route in self._routes.values() if isinstance(route, Route)]
        self._keyring = Keyring()
        self._keyring.unlock([host for route in routes for host in (*route.jumps, route.target)], ask)
        password = ask("Password for the nodes: ", True) if options.ask_password and ask is not None else None
        self._answers = Answers(password=password)
        self._logins = threading.BoundedSemaphore(options.connect_workers)
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False
        self._jumps: dict[Chain, JumpHost] = {}
        for route in routes:
            for length in range(1, len(route.jumps) + 1):
                chain = route.jumps[:length]
                if chain not in self._jumps:
                    self._jumps[chain] = JumpHost(chain[-1], partial(self._connect, chain[-1], chain[:-1]))

    def dialer(self, spec: NodeSpec) -> Dialer:
        """What opens a carrier to this node; the carrier is an `SshCarrier`, whose `facts` tell how it got in."""
        return partial(self._dial, spec.name)

    def close(self) -> None:
        """End every connection and every login under way."""
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for jump in self._jumps.values():
            jump.close()
        for stream in streams:
            stream.close()

    def _dial(self, name: str, command: str) -> SshCarrier:
        route = self._routes[name]
        if isinstance(route, CarrierError):
            raise CarrierError(str(route), final=route.final)
        connection = self._connect(route.target, route.jumps)
        return start_command(connection, route.target, command, self._timeout(route.target))

    def _connect(self, host: ResolvedHost, jumps: Chain) -> Connection:
        timeout = self._timeout(host)
        credentials = Credentials(self._keyring.identity(host), self._answers, self._policy)
        stream = self._open_stream(host, jumps, timeout)
        # a login slot is taken only now: an address that does not answer must not keep others waiting
        with self._login_slot(jumps):
            return log_in(stream, host, credentials, timeout, jump=_words(jumps))

    def _open_stream(self, host: ResolvedHost, jumps: Chain, timeout_s: float) -> Stream:
        stream: Stream
        if jumps:
            stream = self._jumps[jumps].open(host, timeout_s)
        elif host.proxy_command is not None:
            stream = ProxyStream(host.proxy_command)
        else:
            stream = TcpStream(host, timeout_s)
        with self._lock:
            self._streams.add(stream)
            closed = self._closed
        if closed:
            stream.close()
            raise CarrierError("gpuwatch is leaving", final=True)
        return stream

    @contextlib.contextmanager
    def _login_slot(self, jumps: Chain) -> Iterator[None]:
        with contextlib.ExitStack() as slots:
            if jumps:
                slots.enter_context(self._jumps[jumps].logins)
            slots.enter_context(self._logins)
            yield

    def _timeout(self, host: ResolvedHost) -> float:
        return host.connect_timeout_s or self._options.connect_timeout_s


def _words(jumps: Chain) -> str | None:
    return ", ".join(host.where for host in jumps) or None
