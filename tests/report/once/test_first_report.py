from __future__ import annotations

from msgspec import structs

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.report.once.first_report import FirstReport
from gpuwatch.wire import GpuSample, LogFile, Logs, Process, Ranks
from tests.report.fleets import NODE_TIME, START, fast, feed, healthy_fleet, hello, plan, reading, sample

STUCK = GpuSample(uuid="GPU-0001", state="stuck", stuck_in="nvmlInit", stuck_s=1.0)


def begun(gpus: int) -> Fleet:
    fleet = Fleet(plan("gpu-001"))
    logs = Logs(t=NODE_TIME, seq=2, complete=True)
    feed(fleet, "gpu-001", LinkStatus("live"), hello(gpus), Ranks(t=NODE_TIME, seq=1), logs)
    return fleet


def take(fleet: Fleet, second: int, *gpus: GpuSample) -> None:
    feed(fleet, "gpu-001", sample(*gpus, at=START + second), at=START + second)


def at_second(index: int, second: int) -> GpuSample:
    return reading(index, t=NODE_TIME + second)


def test_rates_and_verdicts_need_the_second_sample_of_every_gpu() -> None:
    fleet, first = begun(2), FirstReport()
    node = fleet.nodes["gpu-001"]
    take(fleet, 0, at_second(0, 0), at_second(1, 0))
    assert not first.settled(node, START)
    take(fleet, 1, at_second(0, 1))
    assert not first.settled(node, START + 1)
    take(fleet, 2, at_second(1, 2))
    assert first.settled(node, START + 2)


def test_the_5_s_tier_is_waited_for() -> None:
    fleet, first = begun(1), FirstReport()
    node = fleet.nodes["gpu-001"]
    for second in range(3):
        take(fleet, second, GpuSample(uuid="GPU-0000", fast=fast(t=NODE_TIME + second)))
        assert not first.settled(node, START + second)
    take(fleet, 3, at_second(0, 3))
    assert first.settled(node, START + 3)


def test_a_gpu_that_answered_and_is_stuck_is_not_waited_for() -> None:
    fleet, first = begun(2), FirstReport()
    take(fleet, 0, at_second(0, 0), at_second(1, 0))
    assert not first.settled(fleet.nodes["gpu-001"], START)
    take(fleet, 1, at_second(0, 1), STUCK)
    assert first.settled(fleet.nodes["gpu-001"], START + 1)


def test_a_gpu_that_never_answered_is_waited_for_stuck_or_not() -> None:
    fleet, first = begun(2), FirstReport()
    for second in range(3):
        take(fleet, second, at_second(0, second), STUCK)
        assert not first.settled(fleet.nodes["gpu-001"], START + second)


def test_a_node_that_failed_is_not_waited_for_and_one_under_way_is() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    feed(fleet, "gpu-001", LinkStatus("lost", "connection refused"))
    missing = FirstReport().missing(fleet.nodes.values(), START)
    assert [node.name for node in missing] == ["gpu-002"]


def test_a_stale_node_is_waited_for_until_it_reports_again_or_is_lost() -> None:
    fleet, first = begun(1), FirstReport()
    node = fleet.nodes["gpu-001"]
    take(fleet, 0, at_second(0, 0))
    assert node.state(START + 10) == "stale"
    assert not first.settled(node, START + 10)
    take(fleet, 11, at_second(0, 11))
    assert not first.settled(node, START + 11)
    take(fleet, 12, at_second(0, 12))
    assert first.settled(node, START + 12)
    feed(fleet, "gpu-001", LinkStatus("lost", "no sample for 12 s"))
    assert first.settled(node, START + 30)


def test_a_machine_without_gpus_is_complete_with_its_host() -> None:
    fleet, first = begun(0), FirstReport()
    for second in range(2):
        take(fleet, second)
        settled = first.settled(fleet.nodes["gpu-001"], START + second)
    assert settled


def test_what_the_ranks_write_is_waited_for() -> None:
    """Logs are listed a moment after the ranks: a report before that would miss what they say."""
    fleet, first = begun(0), FirstReport()
    node = fleet.nodes["gpu-001"]
    ranks = [Process(7, "python", rank=0, logs=["/logs/0.log", "/logs/events.out"])]
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=2, processes=ranks))
    for second in range(3):
        take(fleet, second)
        assert not first.settled(node, START + second)
    listed = LogFile("/logs/0.log", size=7)
    feed(fleet, "gpu-001", Logs(t=NODE_TIME, seq=3, files=[listed], complete=True))
    assert not first.settled(node, START + 2)
    searched = structs.replace(listed, searched_to=7)
    feed(fleet, "gpu-001", Logs(t=NODE_TIME, seq=4, files=[searched], complete=True))
    assert first.settled(node, START + 2)


def test_ranks_that_seem_to_wait_at_their_start_are_listed_twice() -> None:
    """The first list has no CPU shares: their children may compute."""
    fleet, first = begun(0), FirstReport()
    node = fleet.nodes["gpu-001"]
    log = LogFile("/logs/0.log", size=0, searched_to=0)
    feed(fleet, "gpu-001", Logs(t=NODE_TIME, seq=3, files=[log], complete=True))
    rank = Process(7, "python", rank=0, logs=["/logs/0.log"], state="S", start=NODE_TIME - 200.0)
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=4, processes=[rank]))
    for second in range(3):
        take(fleet, second)
        assert not first.settled(node, START + second)
    again = structs.replace(rank, cpu_pct=0.1, children_cpu_pct=12.0)
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME + 2, seq=5, processes=[again]))
    assert first.settled(node, START + 2)


def test_a_refusal_that_may_pass_is_waited_for_where_the_wait_is_long_enough() -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", LinkStatus("lost", "connection reset", retry_at=START + 2.0, attempt=1))
    node = fleet.nodes["gpu-001"]
    assert FirstReport(START + 120.0).missing([node], START) == [node]
    assert FirstReport(START + 1.0).missing([node], START) == []
    assert FirstReport().missing([node], START) == []
    feed(fleet, "gpu-001", LinkStatus("lost", "wrong key", retry_at=START + 60.0, attempt=1))
    assert FirstReport(START + 120.0).missing([node], START) == []
