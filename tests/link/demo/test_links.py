"""The demo's links: ordinary frames, in order, from one thread that ends."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from gpuwatch import wire
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.demo.links import arrivals, demo_links
from gpuwatch.link.stream.inbox import Arrival, Inbox, LinkStatus
from tests.link.demo.story import LAST_S, frames_until

PLAN = demo_plan()


def fleet_at(seconds: float) -> Fleet:
    fleet = Fleet(PLAN)
    for arrival in frames_until(seconds, ends_at=1000.0):
        fleet.apply(arrival)
    return fleet


def ranks_at(seconds: float) -> list[int | None]:
    return [process.rank for node in fleet_at(seconds).nodes.values() for process in node.processes]


def collect(inbox: Inbox, enough: Callable[[list[Arrival]], bool]) -> list[Arrival]:
    taken: list[Arrival] = []
    limit = time.monotonic() + 30
    while not enough(taken) and time.monotonic() < limit:
        taken += inbox.drain()
        time.sleep(0.005)
    return taken


def hellos(taken: list[Arrival]) -> list[wire.Hello]:
    return [each.what for each in taken if isinstance(each.what, wire.Hello)]


def demo_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "demo"]


def test_a_fleet_of_128_ranks_trains() -> None:
    fleet = fleet_at(10.0)
    assert len(fleet.gpus()) == 128
    assert {node.state(1000.5) for node in fleet.nodes.values()} == {"live"}
    ranks = [process.rank for node in fleet.nodes.values() for process in node.processes]
    assert sorted(rank for rank in ranks if rank is not None) == list(range(128))
    assert all(gpu.fast and gpu.medium and gpu.slow for gpu in fleet.gpus())
    node = fleet.nodes["gpu-003"]
    assert node.hello is not None and node.hello.topology is not None
    assert len(node.hello.topology.links) == 8
    assert node.host is not None and node.host.ib is not None and len(node.host.ib) == 8


def test_the_same_second_is_the_same_frames() -> None:
    reported = arrivals(PLAN, 20.0, 512.0)
    assert reported == arrivals(PLAN, 20.0, 512.0)
    later = list(frames_until(20.0, 512.0))
    assert [(each.node, each.what) for each in later] == [(each.node, each.what) for each in reported]
    assert [each.at for each in later] == pytest.approx([each.at for each in reported])


def test_slow_tiers_come_at_an_agents_pace() -> None:
    frames = [arrival.what for arrival in frames_until(61.0, 0.0) if arrival.node == "gpu-002"]
    samples = [frame for frame in frames if isinstance(frame, wire.Sample)]
    tiers = Counter[str]()
    for sample in samples:
        tiers += Counter(
            tier for tier in ("fast", "medium", "slow") if getattr(sample.gpus[3], tier) is not None
        )
    assert tiers["fast"] == len(samples) == 61
    assert tiers["medium"] in (13, 14)
    assert tiers["slow"] in (3, 4)
    numbers = [frame.seq for frame in frames if isinstance(frame, wire.Hello | wire.Sample | wire.Ranks)]
    assert numbers == sorted(set(numbers))


def test_the_fall_is_reported_as_an_agent_tells_it_and_once() -> None:
    fleet = fleet_at(60.0)
    reported = [(each.node, each.event.event, each.event.source) for each in fleet.events]
    assert reported == [
        ("gpu-011", "xid", "kernel"),
        ("gpu-011", "gpu_lost", "agent"),
    ]
    lost = [gpu for gpu in fleet.gpus() if gpu.state == "lost"]
    assert [(gpu.node, gpu.info.index) for gpu in lost] == [("gpu-011", 5)]
    assert fleet.nodes["gpu-011"].gpus_present() == 7
    assert lost[0].fast is not None, "its last values stay, with their age"
    assert (lost[0].age(1000.0) or 0) > 14


def test_the_ranks_are_gone_after_the_timeout() -> None:
    assert len(ranks_at(70.0)) == 128
    assert ranks_at(90.0) == [85], "the one that hangs in the driver needs its launcher's SIGKILL"
    assert ranks_at(120.0) == []


def test_real_time_delivers_and_the_thread_ends() -> None:
    inbox = Inbox()
    of_others = set(demo_threads())  # a test before this one may have left a screen that is still closing
    links = demo_links(PLAN, inbox, speed=20.0)
    for link in links:
        link.start()
    assert len(set(demo_threads()) - of_others) == 1, "one thread for all nodes"
    taken = collect(inbox, lambda arrivals: len(arrivals) > 300)
    for link in links:
        link.close()
        link.close()
    assert set(demo_threads()) <= of_others
    assert {arrival.node for arrival in taken} == {spec.name for spec in PLAN.nodes}
    for spec in PLAN.nodes:
        own = [arrival for arrival in taken if arrival.node == spec.name]
        assert own[0].what == LinkStatus("connecting")
        assert [arrival.at for arrival in own] == sorted(arrival.at for arrival in own)


def test_a_late_start_brings_its_past_with_it() -> None:
    inbox = Inbox()
    (link,) = demo_links(Plan(PLAN.nodes[:1]), inbox, start_s=40.0)
    link.start()
    link.close()
    taken = inbox.drain()
    samples = [arrival.at for arrival in taken if isinstance(arrival.what, wire.Sample)]
    assert len(samples) >= 41, "the clock may tick before it is closed"
    assert 39.9 < samples[40] - samples[0] < 40.1
    assert samples[-1] <= time.monotonic()


def test_requests_are_answered() -> None:
    inbox = Inbox()
    (link,) = demo_links(Plan(PLAN.nodes[:1]), inbox, start_s=1.0, speed=50.0)
    assert link.send(wire.Ping(id=1)) is False, "not live yet"
    link.start()
    try:
        assert link.send(wire.Ping(id=7))
        assert link.send(wire.SetInterval(id=8, seconds=2.0))
        taken = collect(inbox, lambda arrivals: len(hellos(arrivals)) == 2)
    finally:
        link.close()
    assert {each.what.id for each in taken if isinstance(each.what, wire.Reply)} == {7, 8}
    assert [hello.interval_s for hello in hellos(taken)] == [1.0, 2.0]
    assert link.send(wire.Ping(id=9)) is False


def test_a_pump_that_is_always_behind_answers() -> None:
    links = demo_links(PLAN, Inbox(), speed=50_000.0)
    for link in links:
        link.start()
    answered = threading.Event()

    def ask() -> None:
        while not links[0].send(wire.Ping(id=7)):
            time.sleep(0.01)
        answered.set()

    threading.Thread(target=ask, daemon=True).start()
    try:
        assert answered.wait(30.0)
    finally:
        for link in links:
            link.close()


def test_no_load_is_negative_or_minus_zero() -> None:
    loads = [
        arrival.what.host.load_1m
        for arrival in frames_until(LAST_S, ends_at=1000.0)
        if isinstance(arrival.what, wire.Sample) and arrival.what.host is not None
    ]
    assert len(loads) > 1900
    assert all(load is not None and load > 0 for load in loads)
