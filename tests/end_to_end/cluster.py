"""A cluster on loopback: real sshd, real agents, eight fake GPUs a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.session import Session
from tests.fake_nvml.build import FakeNvml, build
from tests.kernel_log import for_nodes
from tests.parts import need_compiler
from tests.servers.sshd import Client, Sshd, setenv

WAIT_S = 240.0
ROOT = Path(__file__).parents[2]


def fake_driver(folder: Path) -> FakeNvml:
    """Compile the fake library and give it settings of its own."""
    need_compiler()
    return FakeNvml(build(folder / "lib"), folder / "nvml")


def node_server(folder: Path, client: Client, names: Sequence[str], driver: FakeNvml) -> Sshd:
    """An sshd whose sessions find the fake driver."""
    found = {key: value for key, value in driver.env().items() if key.startswith(("FAKE_", "LD_LIBRARY"))}
    line = "SetEnv " + setenv({"HOME": str(folder / "home"), **found, **for_nodes()})
    return Sshd(folder, client=client, names=names, lines=(line,))


def plan_of(names: Sequence[str], interval_s: float = 1.0) -> Plan:
    """A plan of ssh nodes."""
    return Plan(tuple(NodeSpec(name) for name in names), interval_s=interval_s, source="test")


def watch(session: Session, until: Callable[[Fleet, float], bool], seconds: float = WAIT_S) -> float:
    """Poll until the fleet satisfies `until(fleet, now)`; the seconds that took.

    Raises:
        AssertionError: it never did; the message lists what every node says.
    """
    start = time.monotonic()
    while True:
        session.poll()
        now = time.monotonic()
        if until(session.fleet, now):
            return now - start
        if now - start > seconds:
            raise AssertionError(f"not within {seconds:.0f} s: {describe(session.fleet, now)}")
        time.sleep(0.1)


def describe(fleet: Fleet, now: float) -> str:
    """Every node in a few words, for a failed assertion."""
    return "; ".join(
        f"{node.name} {node.state(now)} age {node.age(now)} {node.link.reason!r} gpus {len(node.gpus)}"
        for node in fleet.nodes.values()
    )


def all_full(fleet: Fleet, now: float) -> bool:
    """Every node is live with eight GPUs that have given values."""
    return all(
        node.state(now) == "live" and len(node.gpus) == 8 and all(gpu.fast for gpu in node.gpus.values())
        for node in fleet.nodes.values()
    )
