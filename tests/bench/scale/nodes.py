"""An ssh_config whose hosts are simulated nodes of one server."""

from __future__ import annotations

import contextlib
import getpass
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.end_to_end.cluster import ROOT
from tests.servers.sshd import Client, make_key, public_key


@contextlib.contextmanager
def simulated_nodes(folder: Path, nodes: int) -> Iterator[Path]:
    """The ssh_config; its hosts are `gpu-0000` and so on."""
    client, key = Client(folder / "client"), make_key(folder / "host_key")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for number in range(nodes):
        client.add_host(f"gpu-{number:04d}", port, getpass.getuser())
    client.trust(f"[127.0.0.1]:{port} {public_key(key)}")
    argv = [sys.executable, "-m", "tests.bench.scale.server", str(port), str(key)]
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        yield client.config
        server.stdin.close()
