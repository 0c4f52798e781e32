"""Nodes in namespaces of their own (processes, mounts, name), each behind a real sshd.

    with nodes(tmp_path, ("n1", "n2")) as cluster, cluster.session() as session:
        cluster["n1"].start([sys.executable, "train.py"])

A node's first process ends with its sshd, and all processes of the node with it: `reboot` is just that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.session import Session
from tests.agent.trees import Kmsg
from tests.end_to_end.launched import MEDIUM_S, QUICK
from tests.kernel_log import VARIABLE, for_nodes
from tests.servers.sshd import LOOPBACK, Client, Sshd, setenv
from tests.workers.isolation import own_processes

FIRST = 'hostname "$0" && mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && "$@" & wait'
"""The first process of a node: it reaps what is orphaned."""
BOOT = "{0}{0}{0}{0}{0}{0}{0}{0}-0000-4000-8000-000000000001"


class Node:
    """A node: start processes on it, signal them by the pids that they have there, start it again."""

    def __init__(
        self,
        folder: Path,
        name: str,
        client: Client,
        variables: Mapping[str, str],
        lines: Sequence[str] = (),
        network: tuple[str, str] | None = None,
    ) -> None:
        """Prepare, not start.

        Args:
            folder: for its files; made.
            name: its host name, and that by which the client knows it.
            client: who connects to it.
            variables: what its logins get in their environment.
            lines: more lines of sshd_config.
            network: its network namespace and its address there; None: the network of the tests.
        """
        self.name, self.boots = name, 0
        folder.mkdir(parents=True)
        self.kmsg = Kmsg(folder / "kmsg")
        self._boot_id = folder / "boot_id"
        self.home = folder / "home"
        self._variables = found = {
            **for_nodes(), VARIABLE: self.kmsg.path, "HOME": str(self.home), **variables
        }  # fmt: skip
        self._space, address = network or ("", LOOPBACK)
        inside = ("ip", "netns", "exec", self._space) if network else ()
        own = (*inside, "unshare", "-m", "-p", "-u", "--fork", "--kill-child", "--mount-proc")
        prefix = (*own, "sh", "-c", FIRST, name, str(self._boot_id))
        line = f"SetEnv {setenv(found)}"
        self.sshd = Sshd(
            folder, client=client, names=(name,), lines=(*lines, line), prefix=prefix, address=address
        )
        self._boot()

    def _boot(self) -> None:
        self.boots += 1
        self._boot_id.write_text(BOOT.format(self.boots) + "\n")

    @property
    def entry(self) -> tuple[str, ...]:
        """The command that runs another one on the node."""
        (first,) = Path(f"/proc/{self.sshd.pid}/task/{self.sshd.pid}/children").read_text().split()
        return "nsenter", "-t", first, "-m", "-p", "-u", *(("-n",) if self._space else ())

    def start(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
        output: IO[bytes] | int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command; it ends with the node."""
        return subprocess.Popen(
            [*self.entry, "env", "-C", str(folder), *argv],
            env={**os.environ, **self._variables, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def signal(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Signal a process by the pid that it has on the node."""
        subprocess.run([*self.entry, "kill", f"-{number}", str(pid)], check=True)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """End all logins, and let sshd answer no new one meanwhile; the node's processes run on."""
        first = psutil.Process(int(self.entry[2]))
        listener = next(each for each in first.children() if each.name() == "sshd")
        listener.suspend()
        try:
            for each in listener.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            yield
        finally:
            listener.resume()

    def reboot(self) -> None:
        """End all of its processes, and start it with another boot id."""
        self.sshd.stop()
        self._boot()
        self.sshd.restart()


class Cluster(dict[str, Node]):
    """Nodes by name."""

    @contextmanager
    def session(
        self, names: Sequence[str] = (), jumps: Mapping[str, str] | None = None, **plan: Any
    ) -> Iterator[Session]:
        """A session over ssh; its agents list processes every `MEDIUM_S`. `jumps`: node -> its jump host."""

        def way(python: str | None, wanted: Mapping[str, Any], *more: Any) -> StartMethod:
            return agent_start(python, {**wanted, "medium_s": MEDIUM_S}, *more)

        by = jumps or {}
        specs = tuple(NodeSpec(name, python=sys.executable, jump=by.get(name)) for name in names or self)
        plan = {"interval_s": 0.5, "thresholds": QUICK, **plan}
        options = next(iter(self.values())).sshd.client.options()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agent_link, "agent_start", way)
            with Session(Plan(specs, source="test", **plan), options) as session:
                yield session


@contextmanager
def nodes(
    folder: Path, names: Sequence[str], variables: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Nodes of these names; their logins get the variables."""
    if os.geteuid() != 0 or not own_processes():
        pytest.skip("no namespaces of one's own are permitted here")
    client = Client(folder / "client")
    cluster = Cluster({name: Node(folder / name, name, client, variables or {}) for name in names})
    with ExitStack() as stack:
        for node in cluster.values():
            stack.enter_context(node.sshd)
            stack.callback(os.close, node.kmsg.writer)
        yield cluster
