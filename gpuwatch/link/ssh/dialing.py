"""All ssh nodes of a plan: prompts before the screen starts, then a dialer for each."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TypeAlias

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.authentication import Answers, NeedsAnswersError
from gpuwatch.link.ssh.carrier import SshCarrier, start_command
from gpuwatch.link.ssh.connection import Connection, Credentials, log_in
from gpuwatch.link.ssh.handshake import HostKeyPolicy
from gpuwatch.link.ssh.jump import JumpHost
from gpuwatch.link.ssh.keys.keyring import Keyring
from gpuwatch.link.ssh.login_turns import LoginTurns
from gpuwatch.link.ssh.prompter import Prompter
from gpuwatch.link.ssh.routes import Route, Routes, jump_words
from gpuwatch.link.ssh.sockets.streams import ByteStream, ProxyStream
from gpuwatch.link.ssh.sockets.tcp import TcpStream
from gpuwatch.link.stream.carrier import CarrierError, Dialer
from gpuwatch.link.stream.options import Ask, LinkOptions

Chain: TypeAlias = tuple[ResolvedHost, ...]

_PERSON_TIMEOUT_S = 120.0  # sshd's own LoginGraceTime


class SshDialing:
    """Makes the dialers of all ssh nodes. All prompts happen in its constructor."""

    def __init__(self, specs: Sequence[NodeSpec], options: LinkOptions, ask: Ask | None) -> None:
        """Resolve ssh_config, load keys, prompt, and connect the jump hosts; this may take some time.

        An unreachable node fails in its dialer.

        Args:
            specs: The nodes.
            options: The options for all of them.
            ask: Asks the user; None if nobody can be asked: jump hosts are then connected by the first dial.
        """
        self._options = options
        self._policy = HostKeyPolicy(options.accept_new_host_keys, options.ssh_config)
        self._routes = Routes(options.ssh_config).find(specs)
        routes = [route for route in self._routes.values() if isinstance(route, Route)]
        self._keyring = Keyring()
        self._keyring.unlock([host for route in routes for host in (*route.jumps, route.target)], ask)
        password = ask("Password for the nodes: ", True) if options.ask_password and ask is not None else None
        self._answers = Answers(password=password)
        self._streams: weakref.WeakSet[ByteStream] = weakref.WeakSet()
        self._dialled: set[str] = set()
        """Nodes that were dialled at least once."""
        self._lock = threading.Lock()
        self._closed = False
        self._turns = LoginTurns(lambda: self._closed)
        chains = {route.jumps[:length] for route in routes for length in range(1, len(route.jumps) + 1)}
        self._jumps = {
            chain: JumpHost(chain[-1], partial(self._connect, chain[-1], chain[:-1], self._answers))
            for chain in chains
        }
        if ask is not None:
            try:
                self._open_jumps(ask)
            except BaseException:
                self.close()
                raise

    def dialer(self, spec: NodeSpec) -> Dialer:
        """Return the dialer of this node. It returns an `SshCarrier` whose `facts` describe the login."""
        return partial(self._dial, spec.name)

    def close(self) -> None:
        """Close every connection and abort logins in progress."""
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.close()
        self._turns.wake()
        for jump in self._jumps.values():
            jump.logins.wake()
            jump.close()

    def _open_jumps(self, ask: Ask) -> None:
        """Connect the jump hosts while the user can still answer; those that do not prompt in parallel."""
        for _, group in groupby(sorted(self._jumps, key=len), key=len):
            chains = list(group)
            with ThreadPoolExecutor(self._options.connect_workers) as pool:
                wants = list(pool.map(self._open_jump, chains))
            asking = [chain for chain, wanted in zip(chains, wants, strict=True) if wanted]
            for chain in asking:
                person = Prompter(chain[-1].where, ask)
                answers = Answers(self._answers.password, person.respond)
                try:
                    self._jumps[chain].adopt(self._connect(chain[-1], chain[:-1], answers))
                except CarrierError:
                    person.raise_if_interrupted()  # else the first dial through it states what is wrong

    def _open_jump(self, chain: Chain) -> bool:
        """Connect a jump host; return True if it prompts, so that the user must be asked, else False.

        A failure is also False.
        """
        try:
            self._jumps[chain].connect()
        except NeedsAnswersError:
            return True
        except CarrierError:
            return False
        return False

    def _dial(self, name: str, command: str) -> SshCarrier:
        route = self._routes[name]
        if isinstance(route, CarrierError):
            raise CarrierError(str(route), final=route.final)
        direct_again = name in self._dialled and not route.jumps
        longest_s = self._options.redial_timeout_s if direct_again else None
        self._dialled.add(name)
        connection = self._connect(route.target, route.jumps, self._answers, longest_s)
        return start_command(connection, route.target, command, self._timeout(route.target))

    def _connect(
        self, host: ResolvedHost, jumps: Chain, answers: Answers, tcp_s: float | None = None
    ) -> Connection:
        """Connect to a host, log in, and return the connection.

        `tcp_s` shortens the TCP connect (seconds); None: the host's timeout.
        """
        timeout = self._timeout(host)
        credentials = Credentials(self._keyring.identity(host), answers, self._policy)
        login_timeout = _PERSON_TIMEOUT_S if answers.respond is not None else timeout
        with self._turns.turn(host):
            stream = self._open_stream(host, jumps, timeout if tcp_s is None else min(tcp_s, timeout))
            slot = self._jumps[jumps].logins.take(lambda: self._closed) if jumps else None
            try:
                return log_in(
                    stream, host, credentials, timeout, jump=jump_words(jumps), login_timeout_s=login_timeout
                )
            finally:
                if slot is not None:
                    self._jumps[jumps].logins.give(slot)

    def _open_stream(self, host: ResolvedHost, jumps: Chain, timeout_s: float) -> ByteStream:
        if jumps:
            through = self._jumps[jumps].open(host, timeout_s)
            self._register(through)
            return through
        if host.proxy_command is not None:
            child = ProxyStream(host.proxy_command)
            self._register(child)
            return child
        tcp = TcpStream()
        self._register(tcp)
        tcp.connect(host, timeout_s)
        return tcp

    def _register(self, stream: ByteStream) -> None:
        with self._lock:
            self._streams.add(stream)
            closed = self._closed
        if closed:
            stream.close()
            raise CarrierError("gpuwatch is leaving", final=True)

    def _timeout(self, host: ResolvedHost) -> float:
        return host.connect_timeout_s or self._options.connect_timeout_s
