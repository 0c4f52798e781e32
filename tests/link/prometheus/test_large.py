"""A thousand nodes of eight GPUs: how long it takes until all of them are there."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from gpuwatch.link.prometheus.discovery import discover
from gpuwatch.session import Session
from tests.cli.running import ROOT

NODES = 1000
START_S = 2.0
SERVE = """
import sys, time
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


@pytest.mark.long
def test_a_thousand_nodes_are_there_within_two_seconds_of_cpu() -> None:
    code = SERVE.format(root=str(ROOT), nodes=NODES)
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        warm_up(url)  # the server's own work is not measured
        began, cpu = time.monotonic(), time.process_time()
        with Session(*discover(url, "", None)) as session:
            while any(not node.gpus for node in session.fleet.nodes.values()):
                session.poll()
                time.sleep(0.02)
            took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
            assert len(session.fleet.nodes) == NODES
            assert len(session.fleet.gpus()) == 8 * NODES
        server.terminate()
    print(f"{NODES} nodes: {took_s:.2f} s, {cpu_s:.2f} s of CPU")
    assert cpu_s <= START_S


def warm_up(url: str) -> None:
    with Session(*discover(url, "", None)) as session:
        while not all(node.gpus for node in session.fleet.nodes.values()):
            session.poll()
            time.sleep(0.05)
