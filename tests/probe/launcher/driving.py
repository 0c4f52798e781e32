"""A launcher driven as the conductor does: over a real carrier, with orders and lines of `protocol`."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from gpuwatch.link.child_process import ChildCarrier
from gpuwatch.link.stream.carrier import Carrier, Dialer
from gpuwatch.link.stream.limits import LineSplitter, StartFinder
from gpuwatch.probe.orchestration.nodes.shipping import ProbeWay, probe_bundle, probe_way
from gpuwatch.probe.protocol import (
    AnyNodeMessage,
    AnyOrder,
    NodeInventory,
    NodeSlot,
    Prepare,
    Ready,
)

PATIENCE_S = 240.0
T = TypeVar("T", bound=AnyNodeMessage)
_DECODER = msgspec.json.Decoder(AnyNodeMessage)

STUB_WORKER = """
import ctypes, json, os, sys, time
def say(stdout, **facts):
    stdout.write(json.dumps(facts).encode() + b"\\n")
    stdout.flush()
def run(config, stdin, stdout):
    say(stdout, kind="note", text=json.dumps([config, dict(os.environ), sys.executable, sys.path]))
    for line in stdin:
        order = json.loads(line)
        if order["do"] == "prepare":
            worker = os.getpid()
            rank = os.fork()
            if rank == 0:
                ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
                if os.getppid() != worker:
                    os._exit(1)
                while True:
                    time.sleep(60)
            say(stdout, kind="ready", rank=0, pid=rank, backend="gloo", torch="0")
        elif order["do"] == "step":
            if order["what"] == "h2d":
                print("a stray word on stdout")
                sys.stderr.write("RuntimeError: CUDA error: no kernel image\\n")
                os._exit(3)
            say(stdout, kind="done", step=order["id"], rank=0, times_s=[0.5])
        elif order["do"] == "stop":
            os.kill(rank, 9)
            return 0
    return 0
"""
STUB = {"gpuwatch.probe.worker": STUB_WORKER}


def fake_torch(folder: Path) -> Path:
    """A folder for PYTHONPATH with a torch that must not be imported."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise ImportError('torch must not be imported')\n")
    (folder / "torch" / "version.py").write_text("__version__ = '2.9.1+fake'\n")
    return folder


def dial(environ: Mapping[str, str] | None = None, argv: Sequence[str] = ("/bin/sh", "-c")) -> Dialer:
    """A dialer that runs the loader's line by this argv, with variables added to the environment."""
    added = [f"{name}={value}" for name, value in (environ or {}).items()]

    def open_carrier(command: str) -> Carrier:
        return ChildCarrier(["env", *added, *argv, command])

    return open_carrier


def config_of(way: ProbeWay) -> dict[str, object]:
    """The config at the end of what is shipped."""
    length, _, rest = way.first.partition(b"\n")
    config: dict[str, object] = msgspec.json.decode(rest[int(length) :])
    return config


class Driven:
    """One launcher and what it has said so far."""

    def __init__(
        self,
        dialer: Dialer | None = None,
        *,
        python: str | None = sys.executable,
        activate: str | None = None,
        deadline_s: float = 100.0,
        silence_s: float | None = None,
        modules: Mapping[str, str] | None = STUB,
        proc: str = "/nowhere",
        worker_silence_s: float | None = None,
    ) -> None:
        """Start it.

        Args:
            dialer: None: a shell on this machine.
            python: As in a hosts file.
            activate: As in a hosts file.
            deadline_s: As `probe_way`.
            silence_s: As `probe_way`.
            modules: Shipped beside or instead of the installed ones; None: the real worker.
            proc: Where it looks for training processes.
            worker_silence_s: After so long without a beat of the launcher, its worker ends everything.
        """
        self.way: ProbeWay = probe_way(python, activate, deadline_s, silence_s=silence_s, modules=modules)
        config = {**config_of(self.way), "proc": proc, "worker_silence_s": worker_silence_s}
        first = probe_bundle(config, modules)
        self.carrier = (dialer or dial())(self.way.command)
        self.message: list[AnyNodeMessage] = []
        self.ended = False
        self.trouble: Exception | None = None
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.carrier.send(first)

    def send(self, *orders: AnyOrder) -> None:
        """Give orders."""
        for order in orders:
            self.carrier.send(msgspec.json.encode(order) + b"\n")

    def until(self, kind: type[T], fits: Callable[[T], bool] = lambda _: True) -> T:
        """The first line of a kind that fits; waits for it."""
        deadline = time.monotonic() + PATIENCE_S
        with self._news:
            while True:
                for message in self.message:
                    if isinstance(message, kind) and fits(message):
                        return message
                left = deadline - time.monotonic()
                if left <= 0 or self.ended:
                    raise AssertionError(
                        f"no such {kind.__name__} in {self.message}; {self.trouble}; {self.carrier.stderr()}"
                    )
                self._news.wait(left)

    def inventory(self) -> NodeInventory:
        """What the node has."""
        return self.until(NodeInventory)

    def wait_for_the_end(self) -> None:
        """Until the stream has ended."""
        with self._news:
            assert self._news.wait_for(lambda: self.ended, PATIENCE_S), self.message

    def close(self) -> None:
        """Close the carrier, as a conductor does that cancels."""
        self.carrier.close()
        self._reader.join(PATIENCE_S)

    def __enter__(self) -> Driven:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        start, lines = StartFinder(self.way.nonce, self.way.mark), LineSplitter(1 << 20)
        try:
            while data := self.carrier.recv(65536):
                rest = data if start.found else start.feed(data)
                for line in lines.split(rest or b""):
                    message = _DECODER.decode(line or b"")
                    with self._news:
                        self.message.append(message)
                        self._news.notify_all()
        except Exception as error:  # passed to the test that waits
            self.trouble = error
        with self._news:
            self.ended = True
            self._news.notify_all()


def one_rank(*, store_port: int = 0, store_here: bool = False) -> Prepare:
    """A group of one on this machine."""
    return Prepare(
        backend="gloo",
        world_size=1,
        slots=[NodeSlot(rank=0, local=0)],
        store_address="127.0.0.1",
        store_port=store_port,
        store_here=store_here,
    )


def gone(*pids: int, within_s: float = 60.0) -> bool:
    """Whether these processes end."""
    deadline = time.monotonic() + within_s
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in ("Z", "X")
    return False


def children(pid: int) -> list[int]:
    """All processes below one, as far as they have not been adopted."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *children(int(child))]
    return found


def with_a_rank(driven: Driven) -> list[int]:
    """All processes of a launcher whose worker has forked a rank."""
    driven.send(one_rank())
    rank = driven.until(Ready).pid
    launcher = driven.inventory().pid
    everyone = [launcher, *children(launcher)]
    assert rank in everyone and len(everyone) == 3
    assert {os.getpgid(pid) for pid in everyone} == {launcher}
    return everyone


def listeners(pid: int) -> set[tuple[str, int]]:
    """(address, port) of the IPv4 sockets on which a process listens."""
    inodes = {path.readlink().name for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            address, port = fields[1].split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found
