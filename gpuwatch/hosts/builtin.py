"""The plans without a file: this machine, and the demo cluster."""

from __future__ import annotations

import socket

from gpuwatch.hosts.plan import Model, NodeSpec, Plan

DEMO_NODES = 16


def local_plan() -> Plan:
    """Return the plan of this machine alone, without ssh."""
    name = socket.gethostname() or "localhost"
    return Plan(nodes=(NodeSpec(name=name, link="local"),), source="--local")


def demo_plan() -> Plan:
    """Return the plan of the simulated cluster: `gpu-001` to `gpu-016`, each with 8 GPUs."""
    names = (f"gpu-{number:03}" for number in range(1, DEMO_NODES + 1))
    nodes = tuple(NodeSpec(name=name, link="demo", slots=8) for name in names)
    return Plan(nodes=nodes, model=Model(params=13e9, layers=40, hidden=5120, seq_len=8192), source="--demo")
