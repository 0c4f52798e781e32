"""From a line on a node to the alert on the screen: a real cockpit in a real terminal, over ssh."""

from __future__ import annotations

import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.cpu import Row
from tests.end_to_end.cluster import fake_driver, node_server
from tests.end_to_end.tty.terminal import Terminal, quoted
from tests.servers.sshd import Client

ALERTS = 100
TICK_S = 1.0
LINE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def rows(folder: Path) -> Sequence[Row]:
    """The median, and the slowest of twenty, over 100 alerts; each on a rank of its own."""
    waits = measure(folder)
    median, slow = statistics.median(waits), sorted(waits)[int(len(waits) * 0.95)]
    return [
        Row(
            f"from a line on a node to the alert on the screen, over ssh, {ALERTS} alerts",
            f"median {median:.2f} s, 95 % within {slow:.2f} s",
            f"median <= {TICK_S + 0.2:.1f} s (1 tick + 0.2 s)",
            median <= TICK_S + 0.2,
            median,
        )
    ]


def measure(folder: Path) -> list[float]:
    """Seconds each alert took, from the write to the moment when the count on the screen had grown."""
    logs = folder / "logs"
    logs.mkdir()
    for rank in range(ALERTS):
        (logs / f"rank_{rank}.log").write_text("started\n")
    client = Client(folder / "client")
    hosts = folder / "hosts.yaml"
    hosts.write_text(f"hosts: [gpu-001]\nlogs: ['{logs}/rank_{{rank}}.log']\n")
    command = quoted(sys.executable, "-m", "gpuwatch", "-F", str(client.config), str(hosts))
    with (
        node_server(folder / "sshd", client, ["gpu-001"], fake_driver(folder)),
        Terminal(160, 40) as terminal,
    ):
        terminal.type(f"exec {command}")
        terminal.wait_for(r"1 live", 60)
        terminal.press("4")
        terminal.wait_for("Alerts", 20)
        time.sleep(5.0)  # past the backlog scan
        before = alerts_on(terminal.screen())
        waits = [one(terminal, logs / f"rank_{rank}.log", before + rank + 1) for rank in range(ALERTS)]
        terminal.press("C-q")
    return waits


def one(terminal: Terminal, log: Path, count: int) -> float:
    """Write at a random moment of the tick; wait until so many alerts are on the screen."""
    time.sleep(random.random() * TICK_S)
    with log.open("a") as file:
        file.write(LINE + "\n")
    began = time.monotonic()
    while alerts_on(terminal.screen()) < count:
        if time.monotonic() - began > 30:
            raise AssertionError(f"alert {count} never came:\n{terminal.screen()}")
        time.sleep(0.005)
    return time.monotonic() - began


def alerts_on(screen: str) -> int:
    """How many alerts the title of the incident screen's list counts; 0 where it counts none."""
    found = re.search(r"(\d+) alerts?(?: of \d+ kinds?)?(?::| ─)", screen)
    return int(found[1]) if found else 0
