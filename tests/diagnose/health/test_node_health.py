"""Conditions of nodes as a whole, from frames as an agent sends them."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.conditions import node_conditions
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.stream.inbox import ClockReading, LinkStatus, Refused
from tests.diagnose.story import EPOCH, FINE, HOST, LIMITS, NOW, Story, codes
from tests.sentences import Sentences


def test_a_lost_node_says_why_and_its_gpus_say_nothing(sentences: Sentences) -> None:
    story = Story()
    story.sample(structs.replace(FINE, temperature_c=95))
    story.report(NOW + 1, LinkStatus("lost", "Connection reset by peer", retry_at=NOW + 5))
    (found,) = story.of_node(NOW + 7)
    assert codes([found]) == [("node_lost", "critical")]
    sentences(found.text)
    assert found.evidence.age_s == 7.0
    assert story.of_gpu(NOW + 7) == []


def test_seven_of_eight(sentences: Sentences) -> None:
    (found,) = Story(NodeSpec("n1", slots=8), gpus=7).of_node(NOW - 19)
    assert found.severity == "critical"
    sentences(found.text)
    assert codes(Story(gpus=7, gpus_expected=8).of_node(NOW - 19)) == [("gpu_missing", "critical")]
    given = wire.Notice("gpu_missing", "2 of 8 GPUs", "info", "a container")
    assert Story(gpus=2, gpus_expected=8, notices=[given]).of_node(NOW - 19) == []
    stated = wire.Notice("gpu_missing", "7 of 8 GPUs", "critical", "reboot")
    assert codes(Story(gpus=7, gpus_expected=8, notices=[stated]).of_node(NOW - 19)) == [
        ("gpu_missing", "critical")
    ]


def test_a_driver_that_does_not_match_is_reported_once(sentences: Sentences) -> None:
    notice = wire.Notice("driver_mismatch", "versions differ", "critical", "reboot the node")
    (found,) = Story(NodeSpec("n1", slots=8), gpus=0, notices=[notice]).of_node(NOW - 19)
    assert codes([found]) == [("driver_mismatch", "critical")]
    sentences(str(found.evidence))


def test_a_machine_without_gpus_is_healthy() -> None:
    assert Story(gpus=0, notices=[wire.Notice("no_gpu", "no NVIDIA GPU")]).of_node(NOW - 19) == []


def test_clock() -> None:
    story = Story()
    for reading, expected in (
        (ClockReading(0.9, 0.01), []),
        (ClockReading(-3.0, 0.01), [("clock_off", "warning")]),
        (ClockReading(1.5, 0.8), []),
        (ClockReading(0.5, 1.4), [("clock_unsure", "info")]),
    ):
        story.report(NOW, reading)
        assert codes(story.of_node(NOW - 19)) == expected


def test_host_and_fabric() -> None:
    story = Story()
    downed, unused = {"link_downed": 2}, {"link_downed": 0}
    ports = [
        wire.IbPort("mlx5_0", 1, "ACTIVE"), wire.IbPort("mlx5_1", 1, "DOWN", errors=downed),
        wire.IbPort("mlx5_2", 1, "DOWN", errors=unused), wire.IbPort("mlx5_3", 1, "INIT"),
        wire.IbPort("mlx5_4", 1),
    ]  # fmt: skip
    disks = [
        wire.Disk("/", "ext4", 96, 100), wire.Disk("/snap/x", "squashfs", 100, 100),
        wire.Disk("/scratch", "lustre", 50, 100),
    ]  # fmt: skip
    story.host(structs.replace(HOST, memory_used_bytes=99, ib=ports, disks=disks))
    found = story.of_node()
    assert [(each.code, each.severity, each.evidence.what) for each in found] == [
        ("host_memory", "warning", "host memory"),
        ("disk_full", "warning", "disk /"),
        ("ib_down", "warning", "port mlx5_1/1"),
        ("ib_down", "warning", "port mlx5_3/1"),
        ("ib_down", "info", "port mlx5_2/1"),
    ]


def test_disks_outlive_the_samples_that_do_not_carry_them() -> None:
    story = Story()
    story.host(structs.replace(HOST, disks=[wire.Disk("/", "ext4", 96, 100)]))
    story.report(NOW + 3, wire.Sample(t=EPOCH + 3, seq=5, host=structs.replace(HOST, t=EPOCH + 3)))
    (found,) = story.of_node(NOW + 3)
    assert found.code == "disk_full"
    assert found.evidence.age_s == pytest.approx(3.0)


def test_the_watcher_watches_itself() -> None:
    story = Story()
    story.report(NOW, Refused("not JSON"), wire.Ranks(t=EPOCH, seq=4, partial="stuck on GPU 3"))
    cost = wire.AgentCost(cpu_pct=35.0, rss_bytes=300 << 20, dropped=4)
    story.report(NOW, wire.Sample(t=EPOCH, seq=5, agent=cost))
    assert codes(story.of_node()) == [
        ("agent_cost", "warning"), ("agent_cost", "warning"), ("frames_refused", "info"),
        ("processes_partial", "info"), ("agent_behind", "info"),
    ]  # fmt: skip


def test_a_list_that_was_cut_is_incomplete() -> None:
    story = Story()
    story.report(NOW, wire.Ranks(t=EPOCH, seq=4, truncated=7))
    (found,) = story.of_node()
    assert found.code == "processes_partial"
    assert "7" in str(found.evidence.text)


def test_lost_frames_are_history_after_five_minutes() -> None:
    story = Story()
    story.report(NOW, Refused("not JSON"), wire.Sample(t=EPOCH, seq=5, agent=wire.AgentCost(dropped=4)))
    later = NOW + 301
    same = wire.Sample(t=EPOCH + 301, seq=6, agent=wire.AgentCost(dropped=4))
    story.report(later, same)
    assert codes(node_conditions(story.node, LIMITS, later)) == []
    story.report(later, Refused("not JSON"))
    assert codes(node_conditions(story.node, LIMITS, later)) == [("frames_refused", "info")]
    assert story.node.refused == 2
    story.report(later, wire.Sample(t=EPOCH + 301, seq=1, agent=wire.AgentCost(dropped=1)))
    assert ("agent_behind", "info") in codes(node_conditions(story.node, LIMITS, later)), "a new agent's"
