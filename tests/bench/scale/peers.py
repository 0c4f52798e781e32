"""Bare readers of the same simulated nodes: what the ssh library alone costs, without decoding and fleet.

python -m tests.bench.scale.peers NODES SSH_CONFIG paramiko|asyncssh|openssh|controlmaster
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import asyncssh
import paramiko

from tests.bench.cpu import rss_bytes, running_s
from tests.parts import need

SECONDS, SETTLE_S = 20.0, 5.0
AT_ONCE = 10


class Counted:
    """What a reader has received."""

    def __init__(self) -> None:
        self.live = self.chunks = self.bytes = 0

    def take(self, data: bytes) -> None:
        """Count one piece."""
        self.chunks += 1
        self.bytes += len(data)


def first(name: str) -> bytes:
    """What starts an agent of the simulated server: no bundle, and the config."""
    return b"0\n" + json.dumps({"nonce": "n", "interval_s": 1.0, "host": name}).encode() + b"\n"


def port_of(config: str) -> int:
    """The port of the first host of an ssh_config."""
    words = Path(config).read_text().split()
    return int(words[words.index("Port") + 1])


def over_paramiko(names: list[str], config: str, counted: Counted) -> list[int]:
    """One connection and one reading thread a node."""
    slots = threading.Semaphore(AT_ONCE)

    def read(name: str) -> None:
        with slots:
            transport = paramiko.Transport(("127.0.0.1", port_of(config)))
            transport.start_client(timeout=60)
            transport.auth_none("root")
            channel = transport.open_session()
            channel.exec_command("agent")
            channel.sendall(first(name))
            transport.sock.settimeout(5.0)
        counted.live += 1
        while data := channel.recv(65536):
            counted.take(data)

    for name in names:
        threading.Thread(target=read, args=(name,), daemon=True).start()
    return [os.getpid()]


def over_asyncssh(names: list[str], config: str, counted: Counted) -> list[int]:
    """All connections in one event loop, in a thread of its own."""

    async def read(name: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            connection = await asyncssh.connect(
                "127.0.0.1", port_of(config), username="root", known_hosts=None, config=None, client_keys=None
            )
            process = await connection.create_process("agent", encoding=None)
            process.stdin.write(first(name))
        counted.live += 1
        while data := await process.stdout.read(65536):
            counted.take(data)

    async def every() -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(read(name, slots) for name in names))

    threading.Thread(target=lambda: asyncio.run(every()), daemon=True).start()
    return [os.getpid()]


def _over_children(names: list[str], counted: Counted, argv: Callable[[str], list[str]]) -> list[int]:
    """Start one ssh process per node; one thread reads all of them."""
    selector, pids = selectors.DefaultSelector(), [os.getpid()]

    def read() -> None:
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, 65536)
                counted.take(data)
                if not data:
                    selector.unregister(key.fd)

    for number, name in enumerate(names):
        child = subprocess.Popen(argv(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(first(name))
        child.stdin.flush()
        selector.register(child.stdout.fileno(), selectors.EVENT_READ, child)
        pids.append(child.pid)
        counted.live += 1
        if number % AT_ONCE == AT_ONCE - 1:
            time.sleep(0.5)
    threading.Thread(target=read, daemon=True).start()
    return pids


def over_openssh(names: list[str], config: str, counted: Counted) -> list[int]:
    """One connection a node."""
    return _over_children(names, counted, lambda name: [need("ssh"), "-T", "-F", config, name, "agent"])


def over_controlmaster(names: list[str], config: str, counted: Counted) -> list[int]:
    """One connection for all, and one session of it a node: what no sshd with MaxSessions 10 allows."""
    socket = Path(config).with_name("master")
    options = ["-F", config, "-S", str(socket)]
    master = subprocess.Popen([need("ssh"), *options, "-M", "-N", names[0]], stdin=subprocess.DEVNULL)
    while not socket.exists():
        time.sleep(0.05)
    argv = [need("ssh"), "-T", *options, names[0], "agent"]
    return [master.pid, *_over_children(names, counted, lambda _name: argv)]


WAYS = {
    "paramiko": over_paramiko,
    "asyncssh": over_asyncssh,
    "openssh": over_openssh,
    "controlmaster": over_controlmaster,
}


def main(nodes: int, config: str, way: str) -> None:
    """Connect, wait until all are live, and measure some seconds."""
    counted = Counted()
    names = [f"gpu-{number:04d}" for number in range(nodes)]
    pids = WAYS[way](names, config, counted)
    until = time.monotonic() + 480
    while counted.live < nodes and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(SETTLE_S)
    cpu, began = [running_s(pid) for pid in pids], time.monotonic()
    chunks, taken = counted.chunks, counted.bytes
    time.sleep(SECONDS)
    wall = time.monotonic() - began
    spent = sum(running_s(pid) - before for pid, before in zip(pids, cpu, strict=True))
    found = {
        "way": way,
        "nodes": counted.live,
        "share": spent / wall,
        "chunks_s": (counted.chunks - chunks) / wall,
        "bytes_s": (counted.bytes - taken) / wall,
        "rss_mb": sum(rss_bytes(pid) for pid in pids) / 1e6,
    }
    print(json.dumps(found), flush=True)
    for pid in pids:
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
