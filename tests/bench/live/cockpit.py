"""The whole cockpit in a real terminal: 64 real agents over real ssh, eight fake GPUs each."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.cpu import Row, shares
from tests.end_to_end.cluster import fake_driver, node_server
from tests.end_to_end.tty.terminal import Terminal, quoted
from tests.servers.sshd import Client

NODES = 64
SECONDS = 30.0


def rows(folder: Path) -> Sequence[Row]:
    """CPU of the one process that a person starts: links, fleet and screen."""
    driver = fake_driver(folder)
    client = Client(folder / "client")
    names = [f"gpu-{number:03d}" for number in range(1, NODES + 1)]
    hosts = folder / "hosts.yaml"
    hosts.write_text(f"hosts: ['gpu-[001-{NODES:03d}]']\n")
    command = quoted(sys.executable, "-m", "gpuwatch", "-F", str(client.config), str(hosts))
    with (
        node_server(folder / "sshd", client, names, driver),
        Terminal(200, 60, COLORTERM="truecolor") as terminal,
    ):
        terminal.type(f"exec {command}")
        terminal.wait_for(rf"{NODES} live", 180)
        time.sleep(10.0)
        (share,) = shares([int(terminal.ask("pane_pid"))], SECONDS)
        terminal.press("q")
    return [
        Row(
            f"cockpit, {NODES} nodes x 8 GPUs live over ssh, 8 Hz at 200x60",
            f"{share:.1%} of a core",
            "<= 20 %",
            share <= 0.20,
            share,
        ),
    ]
