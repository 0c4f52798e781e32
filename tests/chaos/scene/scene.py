"""A cluster of real nodes behind real sshds, a job on them, a cockpit that watches them, a control beside it.

`n1`: nothing special. `n2`: what its agent writes can be disturbed (`injector`). `n3`: known by a name that
must resolve. `n4`: behind the jump host `gate`, whose sshd exchanges keys anew every 31 s. Each has a network
namespace and processes, a name and a wall clock of its own, and two fake GPUs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.hosts.plan import Thresholds
from gpuwatch.session import Session
from gpuwatch.session.session_recording import SessionRecording
from tests.chaos.scene import injector
from tests.chaos.scene.control import Control
from tests.chaos.scene.network import Network
from tests.chaos.scene.polling import Polling
from tests.chaos.scene.shifted_clock import WallClock, compiled
from tests.drills.jobs import PER_NODE, Job, job
from tests.drills.namespaces import Cluster, Node
from tests.end_to_end.cluster import fake_driver
from tests.fake_nvml.build import FakeNvml
from tests.servers.sshd import Client, public_key

NAMES = ("n1", "n2", "n3", "n4")
GATE = "gate"
NAMED = "n3.chaos.test"
QUICK = Thresholds(hang_s=10.0, hold_s=5.0, clear_s=5.0)
"""A job counts as silent soon: losses of links must not look like that."""
LISTENS, TIME_WAIT = "0A", "06"
LOGIN = b"SSH_CONNECTION="
"""In the environment of every process that a login has started."""
INTERVAL_S = 1.0


def bind(folder: Path, name: str, text: str) -> Path:
    """A file of ours in the place of /etc/NAME, for this process and its children."""
    file = folder / name
    file.write_text(text)
    subprocess.run(["mount", "--bind", str(file), f"/etc/{name}"], check=True)
    return file


@dataclass
class Scene:
    """What the faults act on."""

    folder: Path
    network: Network
    cluster: Cluster
    gate: Node
    driver: FakeNvml
    clocks: dict[str, WallClock]
    """By node; that of the cockpit's machine is `cockpit`."""
    hosts: Path
    """What stands for /etc/hosts."""
    control: Control
    names: Sequence[str] = NAMES
    session: Session = field(init=False)
    polling: Polling = field(init=False)
    job: Job = field(init=False)
    recording: SessionRecording = field(init=False)

    def processes(self, name: str) -> list[int]:
        """The processes of a node, without its first one."""
        first = self.first(name)
        space = space_of(first)
        return [pid for pid in pids() if space_of(pid) == space and pid != first]

    def logins(self, name: str) -> list[int]:
        """The processes that logins to a node have started: its agent and what that runs."""
        return [pid for pid in self.processes(name) if LOGIN in environment(pid)]

    def watchers(self, name: str) -> list[int]:
        """The node's sshd, and everything of its logins; not its job."""
        servers = [pid for pid in self.processes(name) if command(pid).startswith(b"sshd")]
        return [*servers, *self.logins(name)]

    def sessions(self, name: str) -> list[int]:
        """What `watchers` gives, without the sshd that waits for connections."""
        (listener,) = children(self.first(name))
        return [pid for pid in self.watchers(name) if pid != listener]

    def connections(self, name: str) -> int:
        """The TCP connections of a node that its kernel still knows."""
        states = [
            line.split()[3] for line in Path(f"/proc/{self.first(name)}/net/tcp").read_text().splitlines()[1:]
        ]
        return sum(state not in (LISTENS, TIME_WAIT) for state in states)

    def first(self, name: str) -> int:
        """The first process of a node."""
        return int((self.gate if name == GATE else self.cluster[name]).entry[2])

    def signal(self, pids: list[int], number: signal.Signals) -> None:
        """Send a signal to processes, some of which may have ended."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def files(self) -> set[Path]:
        """What lies in the homes and temporary folders of all nodes."""
        nodes = [*self.cluster.values(), self.gate]
        roots = [*(node.home for node in nodes), *self.folder.glob("tmp-*")]
        return {path for root in roots for path in root.rglob("*")}

    def resolve(self, address: str | None) -> None:
        """The name of `n3` has this address; None: it is unknown."""
        line = f"{address} {NAMED}\n" if address else ""
        self.hosts.write_text(f"127.0.0.1 localhost\n{line}")

    def agents(self) -> int:
        """The number of processes that logins have started on all nodes."""
        return sum(len(self.logins(name)) for name in NAMES)

    @property
    def running(self) -> list[int]:
        """The ranks whose node has not been started anew."""
        alive = [launcher.poll() is None for launcher in self.job.launchers]
        return [rank for rank in range(PER_NODE * len(NAMES)) if alive[rank // PER_NODE]]

    def step(self, rank: int) -> int:
        """The newest step that is known of a rank."""
        writers = self.session.fleet.progress.writers.values()
        return max((each.steps[-1].step for each in writers if each.rank == rank and each.steps), default=0)

    def _recorder_trouble(self) -> list[str]:
        return [self.recording.status] if self.recording.trouble else []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A session over all nodes, and a job on all of them."""
        with self.cluster.session(
            NAMES, {"n4": GATE}, thresholds=QUICK, interval_s=INTERVAL_S
        ) as self.session:
            self.recording = SessionRecording(self.session)
            self.polling = Polling(self.session, NAMES, self._recorder_trouble)
            with job(
                self.cluster, self.session, self.folder / "job", "train", "--tag", nodes=NAMES
            ) as self.job:
                self.polling.until(self.polling.live, "all live")
                self.polling.until(lambda: all(map(self.step, self.running)), "steps of all ranks")
                yield
                self.recording.close()


def children(pid: int) -> list[int]:
    """The child processes of a process that were not started by `nsenter`."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def pids() -> list[int]:
    """All processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a third of the time


def space_of(pid: int) -> str:
    """The pid namespace of a process; empty: it has ended."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def environment(pid: int) -> bytes:
    """The environment with which a process was started."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def command_line(pid: int) -> bytes:
    """The command line of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def command(pid: int) -> bytes:
    """The name of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_bytes().strip()
    return b""


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """The nodes and the control; they end with it."""
    control = Control()  # forks: before any thread
    hosts = bind(folder, "hosts", "127.0.0.1 localhost\n")
    bind(folder, "resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    network, client, driver = Network(), Client(folder / "client"), fake_driver(folder / "driver")
    driver.set("gpus 2")
    library = compiled(folder)  # that of this process is the same
    clocks = {name: WallClock(library, folder / f"clock-{name}") for name in (*NAMES, GATE, "cockpit")}
    found = {key: value for key, value in driver.env().items() if key.startswith(("FAKE_", "LD_LIBRARY"))}
    lines = {
        "n2": (f"ForceCommand {sys.executable} -IS {Path(injector.__file__)} {folder / 'n2'}",),
        GATE: ("RekeyLimit default 31", "LogLevel DEBUG1"),
    }

    def node(name: str) -> Node:
        (temporary := folder / f"tmp-{name}").mkdir()
        variables = {**found, **clocks[name].variables, "TMPDIR": str(temporary)}
        return Node(folder / name, name, client, variables, lines.get(name, ()), network.join(name))

    cluster, gate = Cluster({name: node(name) for name in NAMES}), node(GATE)
    made = Scene(folder, network, cluster, gate, driver, clocks, hosts, control)
    made.resolve(network.addresses["n3"])
    client.config.write_text(f"Host n3\n    HostName {NAMED}\n")
    try:
        for each in (*cluster.values(), gate):
            each.sshd.start()
        port = cluster["n3"].sshd.port
        client.trust(f"[{NAMED}]:{port} {public_key(cluster['n3'].sshd.host_keys[0])}")
        yield made
    finally:
        for each in (*cluster.values(), gate):
            each.sshd.stop()
            os.close(each.kmsg.writer)
        control.close()
