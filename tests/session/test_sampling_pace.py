"""A cockpit that cannot keep up asks its nodes for fewer samples, and for more when it can."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.builtin import local_plan
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.session import Session
from gpuwatch.session.sampling_pace import CHECK_S, LEAST_NODES, QUIET_CHECKS, SamplingPace
from tests.session.polling import until


@dataclass
class Load:
    """CPU seconds of a process, by the share of a core that it takes."""

    pace: SamplingPace
    now: float = 0.0
    cpu_s: float = 0.0

    def run(self, share: float, checks: int = 1) -> None:
        for _ in range(checks):
            self.now += CHECK_S
            self.cpu_s += share * CHECK_S
            self.pace.update(self.now)


def loaded(nodes: int, interval_s: float = 1.0) -> tuple[Fleet, Load]:
    fleet = Fleet(Plan(tuple(NodeSpec(f"n{i}") for i in range(nodes)), interval_s=interval_s))
    pace = SamplingPace(fleet, lambda _node, _seconds: True, lambda: load.cpu_s)
    load = Load(pace)
    load.run(0.0)
    return fleet, load


def test_the_interval_follows_the_load_and_comes_back() -> None:
    fleet, load = loaded(LEAST_NODES)
    load.run(0.5)
    assert fleet.interval_s == 1.0
    load.run(0.7)
    assert fleet.interval_s == 2.0
    load.run(0.9, checks=9)
    assert fleet.interval_s == 8.0
    load.run(0.4, checks=20)
    assert fleet.interval_s == 8.0
    load.run(0.1, checks=QUIET_CHECKS)
    assert fleet.interval_s == 4.0
    load.run(0.1, checks=9 * QUIET_CHECKS)
    assert fleet.interval_s == 1.0


@pytest.mark.parametrize(("interval_s", "longest"), [(1.0, 8.0), (5.0, 10.0), (30.0, 30.0)])
def test_the_interval_has_a_limit_and_is_never_shorter_than_asked(interval_s: float, longest: float) -> None:
    fleet, load = loaded(LEAST_NODES, interval_s)
    load.run(1.0, checks=9)
    assert fleet.interval_s == longest
    load.run(0.0, checks=99)
    assert fleet.interval_s == interval_s


def test_few_nodes_keep_their_interval() -> None:
    fleet, load = loaded(LEAST_NODES - 1)
    load.run(1.0, checks=9)
    assert fleet.interval_s == 1.0


def test_a_real_agent_takes_the_interval_and_one_that_starts_later_too() -> None:
    with Session(replace(local_plan(), discover=False)) as session:
        (node,) = session.fleet.nodes.values()
        until(session, lambda: node.hello is not None)
        pace = SamplingPace(session.fleet, session.set_interval, lambda: load.cpu_s, least_nodes=1)
        load = Load(pace)
        load.run(0.0)
        load.run(0.8)
        until(session, lambda: node.interval_s == 2.0)
        first = node.hello
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        until(session, lambda: node.hello is not None and node.hello.pid != first.pid)
        assert node.interval_s == 1.0
        load.run(0.4)
        until(session, lambda: node.interval_s == 2.0)
