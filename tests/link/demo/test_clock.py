"""The demo's clock waits for the simulated nodes."""

from __future__ import annotations

import math

import pytest

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.demo.clock import CATCH_UP, DemoClock, demo_clock
from gpuwatch.link.demo.links import MAX_LATE_S, Pump, demo_links
from gpuwatch.link.stream.inbox import Inbox


class MachineTime:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 10_000.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_stands_at_its_limit_goes_on_from_there_and_catches_up() -> None:
    real = MachineTime()
    clock = DemoClock(real, lambda: real.now + 1000.0)
    real.now += 2.0
    assert (clock.monotonic(), clock.wall()) == (10_002.0, 11_002.0)
    clock.stop_at(10_003.0)
    real.now += 60.0
    assert (clock.monotonic(), clock.wall()) == (10_003.0, 11_003.0)
    clock.stop_at(10_010.0)
    real.now += 1.5
    assert clock.monotonic() == pytest.approx(10_003.0 + 1.5 * (1 + CATCH_UP))
    assert clock.for_session().behind_s() == pytest.approx(59.0 - 1.5 * CATCH_UP)
    clock.stop_at(math.inf)
    real.now += 59.0 / CATCH_UP
    assert (clock.monotonic(), clock.behind_s()) == (real.now, 0.0)


def test_a_pump_without_time_makes_no_node_late() -> None:
    real = MachineTime()
    clock = DemoClock(real, lambda: real.now + 1e9)
    (link,) = demo_links(Plan(demo_plan().nodes[:1]), Inbox(), clock=clock)
    pump = link._pump  # type: ignore[attr-defined]
    assert isinstance(pump, Pump)
    pump.play_backlog(link)  # type: ignore[arg-type]
    began = clock.monotonic()
    pump._wait_for(1.0)
    real.now += 30.0
    assert clock.monotonic() - began == 1.0 + MAX_LATE_S
    assert pump._now() == 1.0 + MAX_LATE_S, "the story waits, too"


def test_only_a_plan_with_simulated_nodes_has_such_a_clock() -> None:
    assert demo_clock(demo_plan()) is not None
    assert demo_clock(Plan(())) is None
