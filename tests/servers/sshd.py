"""Real sshd processes on loopback ports, and a client's folder that points at them.

    with Sshd(tmp_path / "a", names=("node-1", "node-2")) as sshd:
        plan = Plan(nodes=tuple(sshd.spec(name) for name in sshd.names))
        options = sshd.client.options()

Nothing outside the given folders is read or written: the client has its own key, ssh_config and known_hosts;
the server has its own host keys and authorized_keys; the login shell gets `sshd.home` as its HOME. Sessions
run as the user who runs the tests or, for root, as a throw-away `login_user`.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.stream.options import LinkOptions
from tests.kernel_log import for_nodes
from tests.parts import need

WAIT_S = 240.0
LOOPBACK = "127.0.0.1"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a node in a network namespace of its own
LEFT_S = 5.0
"""Seconds in which a stopped sshd leaves its port: processes of a killed namespace end a moment later."""
MANY = frozenset(("HostKey", "ListenAddress", "Port"))
"""Keywords of sshd_config of which every line counts."""


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair `path` and `path.pub` of ssh-keygen's type `kind`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    bits = ["-b", "2048"] if kind == "rsa" else []
    argv = [need("ssh-keygen"), "-q", "-t", kind, *bits, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path


def public_key(path: Path) -> str:
    """`type base64` of a key pair, without the comment."""
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def sign_key(
    authority: Path, key: Path, *, principals: str = "", host: bool = False, validity: str = ""
) -> Path:
    """A certificate for a key pair by ssh-keygen, at `key-cert.pub`."""
    argv = [need("ssh-keygen"), "-q", "-s", str(authority), "-I", key.name]
    argv += ["-h"] if host else []
    argv += ["-n", principals] if principals else []
    argv += ["-V", validity] if validity else []
    subprocess.run([*argv, f"{key}.pub"], check=True, stdin=subprocess.DEVNULL)
    return key.with_name(key.name + "-cert.pub")


class Client:
    """The client's side: an identity, a known_hosts and an ssh_config in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = make_key(folder / "id_ed25519")
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.touch()
        self.config = folder / "config"
        self.config.touch()

    def add_host(self, name: str, port: int, user: str, *lines: str) -> None:
        """Append a Host block; `lines` come before the usual ones and so win over them."""
        usual = (
            f"HostName {LOOPBACK}",
            f"Port {port}",
            f"User {user}",
            f"IdentityFile {self.identity}",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
        )
        with self.config.open("a") as config:
            config.write(f"Host {name}\n" + "".join(f"    {line}\n" for line in (*lines, *usual)))

    def trust(self, line: str) -> None:
        """Append a line to known_hosts."""
        with self.known_hosts.open("a") as known:
            known.write(line + "\n")

    def options(self, *, accept_new_host_keys: bool = False, ask_password: bool = False) -> LinkOptions:
        """Link options that read this client's ssh_config and nobody else's."""
        return LinkOptions(
            ssh_config=str(self.config), accept_new_host_keys=accept_new_host_keys, ask_password=ask_password
        )

    def ssh(self, *argv: str, timeout: float = WAIT_S) -> subprocess.CompletedProcess[str]:
        """Run the real ssh with this client's config and never a prompt."""
        return subprocess.run(
            [need("ssh"), "-F", str(self.config), "-o", "BatchMode=yes", *argv],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )


class Sshd:
    """One sshd. `names` are host names of the client's ssh_config that lead to it."""

    def __init__(
        self,
        folder: Path,
        *,
        client: Client | None = None,
        names: Sequence[str] = ("node-1",),
        user: LoginUser | None = None,
        host_keys: Sequence[str] = ("ed25519",),
        trusted: bool = True,
        lines: Sequence[str] = (),
        prefix: Sequence[str] = (),
        address: str = LOOPBACK,
    ) -> None:
        """Prepare, not start.

        Args:
            folder: for the server's files, made when missing.
            client: shared by several servers; None makes one in `folder/client`.
            names: host names for the client's ssh_config.
            user: who logs in; None is the user who runs the tests.
            host_keys: ssh-keygen types, kept at `folder/host_TYPE`.
            trusted: write the first host key into the client's known_hosts.
            lines: sshd_config lines (`Banner /path`, `ForceCommand ...`, `HostCertificate ...`,
                `TrustedUserCAKeys ...`); they come first and so win.
            prefix: a command that runs sshd, and ends it at its own end.
            address: where the client finds it; one with a network of its own listens on all of its addresses.
        """
        self._argv = (*prefix, need("sshd"))
        self._end = signal.SIGKILL if prefix else signal.SIGTERM
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.address = folder, address
        self.client = client or Client(folder / "client")
        self.names = tuple(names)
        self.user = user.name if user else getpass.getuser()
        self.host_keys = tuple(make_key(folder / f"host_{kind}", kind) for kind in host_keys)
        self.home = user.home if user else folder / "home"
        self.home.mkdir(exist_ok=True)
        self.log = folder / "log"
        self.authorized_keys = (user.home if user else folder) / "authorized_keys"
        self.authorized_keys.write_text(public_key(self.client.identity) + "\n")
        self.port = 0
        self._lines = tuple(lines)
        self._trusted = trusted
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The listening process."""
        if self._process is None:
            raise RuntimeError("this sshd is not running")
        return self._process.pid

    def start(self) -> Sshd:
        """Start it, wait until it greets, and tell the client about it."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.port = self.port or _free_port()
        self._write_config()
        self._launch()
        for name in self.names:
            self.client.add_host(name, self.port, self.user, f"HostName {self.address}")
        if self._trusted:
            self.client.trust(f"[{self.address}]:{self.port} {public_key(self.host_keys[0])}")
        return self

    def restart(self) -> None:
        """Stop it and start it again on the same port, with the same keys."""
        self.stop()
        self._launch()

    def stop(self) -> None:
        """End the listener and every session of it, by pid."""
        if self._process is None:
            return
        pids = self.sessions()
        self._process.send_signal(self._end)
        self._process.wait(WAIT_S)
        deadline = time.monotonic() + LEFT_S
        while _listens(self.address, self.port) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
        self._process = None

    def kill_sessions(self) -> None:
        """End every login at once; one that ends with the one before it is no fault."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def sessions(self) -> list[int]:
        """The sshd processes that serve the present connections: two each for root's sshd, one else."""
        found = [self.pid]
        for pid in found:
            found += [child for child in _children(pid) if _is_sshd(child)]
        return found[1:]

    def logins(self) -> int:
        """How many logins the log has seen succeed."""
        return len(re.findall(r"^Accepted \S+ for ", self.log.read_text(errors="replace"), re.MULTILINE))

    def spec(self, name: str | None = None) -> NodeSpec:
        """A node of a plan that leads here."""
        return NodeSpec(name=name or self.names[0])

    def _write_config(self) -> None:
        usual = [
            f"Port {self.port}",
            f"ListenAddress {LOOPBACK if self.address == LOOPBACK else EVERY_ADDRESS}",
            f"PidFile {self.folder / 'pid'}",
            f"AuthorizedKeysFile {self.authorized_keys}",
            "StrictModes no",
            "UsePAM no",
            "UseDNS no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "MaxStartups 2000:100:2000",
            "LogLevel VERBOSE",
            "PrintMotd no",
            "SetEnv " + setenv({"HOME": str(self.home), **for_nodes()}),
            *(f"HostKey {key}" for key in self.host_keys),
        ]
        given = {line.split()[0] for line in self._lines}  # of MaxStartups the last one counts
        lines = [*self._lines, *(line for line in usual if line.split()[0] not in given - MANY)]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")

    def _launch(self) -> None:
        argv = [*self._argv, "-D", "-e", "-f", str(self.folder.resolve() / "sshd_config")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + WAIT_S
        while not _greets(self.address, self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"sshd did not start: {self.log.read_text(errors='replace')}")
            time.sleep(0.02)

    def __enter__(self) -> Sshd:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass(frozen=True)
class LoginUser:
    """A throw-away account: its name, and its home for rc files."""

    name: str
    home: Path


@contextlib.contextmanager
def login_user(shell: str) -> Iterator[LoginUser]:
    """An account with this login shell, for `Sshd(..., user=...)`; needs root. It is removed at the end."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a throw-away account")
    name = f"gw{os.getpid() % 100000}t{time.monotonic_ns() % 100000}"
    home = Path(tempfile.mkdtemp(prefix="gpuwatch-home-"))  # pytest's own folders are closed to other users
    try:
        argv = [need("useradd"), "-M", "-d", str(home), "-s", shell, "-p", "*", name]
        subprocess.run(argv, check=True, capture_output=True)
        try:
            shutil.chown(home, name)
            yield LoginUser(name, home)
        finally:
            # by force: what the last session started may still be on its way out
            subprocess.run([need("userdel"), "-f", name], check=True, capture_output=True)
    finally:
        shutil.rmtree(home)


def setenv(variables: Mapping[str, str]) -> str:
    """The values of one SetEnv line; of several lines sshd takes the first."""
    return " ".join(f"{name}={value}" for name, value in variables.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 1.0):
            return True
    except OSError:
        return False


def _greets(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), 1.0) as sock:
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    except OSError:
        return False
