"""A start over a thousand nodes of eight GPUs out of a simulated Prometheus in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from gpuwatch.link.prometheus.discovery import discover
from gpuwatch.session import Session
from tests.cli.running import ROOT

NODES = 1000
SERVE = """
import sys
sys.path.insert(0, {root!r})
from tests.link.prometheus.simulated import simulated
with simulated() as known:
    for node in range(1, {nodes} + 1):
        for index in range(8):
            known.gpu(node, index)
    known.caching = True
    print(known.url, flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class StartCost:
    wall_s: float
    cpu_s: float
    gpus: int


def start_cost() -> StartCost:
    """From the first query until every node and GPU is in the fleet; the server has its answers ready."""
    argv = [sys.executable, "-c", SERVE.format(root=str(ROOT), nodes=NODES)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        started(url)
        cost = started(url)
        server.terminate()
    return cost


def started(url: str) -> StartCost:
    began, cpu = time.monotonic(), time.process_time()
    with Session(*discover(url, "", None)) as session:
        while any(not node.gpus for node in session.fleet.nodes.values()):
            session.poll()
            time.sleep(0.02)
        return StartCost(time.monotonic() - began, time.process_time() - cpu, len(session.fleet.gpus()))
