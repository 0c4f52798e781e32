"""Conditions of GPUs, from frames as an agent sends them."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.conditions import gpu_conditions
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.link.stream.inbox import LinkStatus
from tests.diagnose.story import EPOCH, FINE, MEDIUM, NOW, SLOW, Story, codes
from tests.sentences import Sentences


@pytest.mark.parametrize(
    ("fast", "expected"),
    [
        ({"temperature_c": 81}, []),
        ({"temperature_c": 82}, [("temperature", "warning")]),
        ({"temperature_c": 87}, [("temperature", "critical")]),
        ({"memory_temperature_c": 91}, [("memory_temperature", "warning")]),
        ({"throttle_pct": {"sw_thermal": 40.0, "power_cap": 90.0}}, [("sw_thermal", "warning")]),
        ({"throttle_pct": {"hw_thermal": 11.0}}, [("hw_thermal", "critical")]),
        ({"throttle_pct": {"power_brake": 9.0}}, []),
        ({"throttle": ["power_brake"], "throttle_pct": None}, [("power_brake", "critical")]),
        ({"throttle": ["power_cap", "idle"], "throttle_pct": None}, []),
        ({"memory_used_bytes": 79 << 30}, [("memory", "info")]),
        ({"temperature_c": None, "throttle": None, "throttle_pct": None, "memory_total_bytes": None}, []),
    ],
)
def test_fast_values(fast: dict[str, object], expected: list[tuple[str, str]]) -> None:
    story = Story()
    story.sample(structs.replace(FINE, **fast))
    assert codes(story.of_gpu()) == expected


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ({"ecc_uncorrected": 3}, [("ecc_uncorrected", "critical")]),
        ({"remap_pending": True}, [("remap_pending", "warning")]),
        ({"remap_failed": True}, [("remap_failed", "critical")]),
        ({"retired_pending": True}, [("retired_pending", "warning")]),
        ({"recovery_action": "gpu_reset"}, [("recovery_action", "critical")]),
        ({"recovery_action": None}, []),
        ({"nvlink_active": 17}, [("nvlink_down", "critical")]),
        ({"nvlink_active": 0}, []),
    ],
)  # fmt: skip
def test_slow_counters(slow: dict[str, object], expected: list[tuple[str, str]]) -> None:
    story = Story()
    story.sample(slow=structs.replace(SLOW, **slow))
    assert codes(story.of_gpu()) == expected


def test_a_temperature_limit_of_the_hosts_file_holds_where_the_gpu_states_none() -> None:
    story = Story()
    story.sample(structs.replace(FINE, temperature_c=84))
    story.gpu.info = structs.replace(story.gpu.info, temperature_slowdown_c=None)
    assert story.of_gpu() == []
    (found,) = gpu_conditions(story.gpu, story.node, Thresholds(temperature_c=80.0), NOW)
    assert codes([found]) == [("temperature", "warning")]


def test_evidence_has_the_number_its_limit_and_its_age() -> None:
    story = Story()
    story.sample(structs.replace(FINE, temperature_c=88))
    (found,) = story.of_gpu(NOW + 1.5)
    assert (found.evidence.value, found.evidence.threshold, found.evidence.age_s) == (88.0, 87.0, 1.5)
    assert str(found.evidence) == "temperature 88 C, limit 87 C, 1.5 s ago"
    assert found.gpu == 0
    assert "GPU" not in found.text, "the place is separate from the text"


def test_old_values_prove_nothing() -> None:
    story = Story()
    story.sample(structs.replace(FINE, temperature_c=95), slow=structs.replace(SLOW, ecc_uncorrected=5))
    assert codes(story.of_gpu(NOW + 10)) == [("ecc_uncorrected", "critical")]
    assert story.of_gpu(NOW + 100) == []
    assert codes(story.of_node(NOW + 100)) == [("node_stale", "warning")]


def test_a_gpu_that_is_silent_while_its_node_speaks() -> None:
    story = Story()
    story.sample()
    story.report(NOW + 8, wire.Sample(t=EPOCH + 8, seq=9))
    assert codes(story.of_gpu(NOW + 8)) == [("gpu_stale", "warning")]


def test_no_gpu_is_blamed_for_a_link_that_falls_silent() -> None:
    """Its values are read before the node's last frame, and are stale while the node still counts as live."""
    story = Story()
    story.sample(at=NOW)
    story.report(NOW + 0.9, wire.Sample(t=EPOCH + 0.9, seq=9))
    assert story.of_gpu(NOW + 3.5) == []
    assert story.of_node(NOW + 3.5) == []
    assert codes(story.of_node(NOW + 4.5)) == [("node_stale", "warning")]


def test_no_gpu_is_blamed_before_a_new_agent_has_read_it() -> None:
    story = Story()
    story.sample(at=NOW)
    story.report(NOW + 20, LinkStatus("live"))
    story.report(NOW + 21, wire.Sample(t=EPOCH + 21, seq=1))
    assert story.of_gpu(NOW + 21) == []
    story.report(NOW + 24, wire.Sample(t=EPOCH + 24, seq=2))
    assert codes(story.of_gpu(NOW + 24)) == [("gpu_stale", "warning")]


def test_a_stuck_gpu_says_in_which_call_and_since_when(sentences: Sentences) -> None:
    story = Story()
    story.sample(at=NOW - 6)
    stuck = wire.GpuSample("GPU-0", state="stuck", stuck_in="nvmlDeviceGetPowerUsage", stuck_s=5.2)
    story.report(NOW, wire.Sample(t=EPOCH, seq=3, gpus=[stuck]))
    (found,) = story.of_gpu()
    sentences(found.text)
    assert found.severity == "critical"
    assert found.evidence.age_s == pytest.approx(6.0)


def test_pcie_counts_only_under_load() -> None:
    narrow = structs.replace(MEDIUM, pcie_gen=3, pcie_width=8)
    idle, busy, starting = Story(), Story(), Story()
    for second in range(15, -1, -1):
        at = NOW - second
        idle.sample(structs.replace(FINE, utilization_pct=0), at=at, medium=narrow)
        busy.sample(at=at, medium=narrow)
        starting.sample(structs.replace(FINE, utilization_pct=98 if second < 2 else 0), at=at, medium=None)
    assert idle.of_gpu() == []
    assert starting.of_gpu() == []
    (found,) = busy.of_gpu()
    assert codes([found]) == [("pcie_degraded", "warning")]
    assert found.text == "PCIe at gen 3 x8, supports gen 5 x16"


def test_a_link_read_while_idle_is_no_proof_once_work_has_started() -> None:
    story = Story()
    for second in range(12, -1, -1):
        fast = structs.replace(FINE, utilization_pct=98 if second < 3 else 0)
        narrow = structs.replace(MEDIUM, pcie_gen=1) if second == 4 else None
        story.sample(fast, at=NOW - second, medium=narrow)
    assert story.of_gpu() == []


def test_all_nvlinks_down_counts_beside_a_neighbour_that_has_them() -> None:
    story = Story(gpus=2)
    story.sample(slow=structs.replace(SLOW, nvlink_active=0))
    neighbour = wire.GpuSample("GPU-1", slow=SLOW)
    story.report(NOW, wire.Sample(t=EPOCH, seq=3, gpus=[neighbour]))
    assert codes(story.of_gpu()) == [("nvlink_down", "critical")]


def xid(code: int, severity: wire.Severity, ago: float, gpu: str | None = "GPU-0") -> wire.Event:
    return wire.Event(
        t=EPOCH - ago,
        seq=7,
        event="xid",
        title=f"title {code}",
        severity=severity,
        gpu=gpu,
        code=code,
        source="kernel",
    )


def test_the_worst_recent_xid_is_reported_and_an_old_one_fades() -> None:
    story = Story()
    story.sample()
    story.report(NOW, xid(31, "warning", 90_000.0))
    assert story.of_gpu() == []
    story.report(NOW, xid(48, "critical", 7200.0))
    assert codes(story.of_gpu()) == [("xid", "info")]
    story.report(NOW, xid(79, "critical", 60.0), xid(45, "info", 30.0))
    (found,) = story.of_gpu()
    assert (found.severity, found.text) == ("critical", "Xid 79: title 79")
    assert found.evidence.age_s == pytest.approx(60.0)
    assert story.of_node() == []


def test_an_xid_of_no_known_gpu_belongs_to_the_node() -> None:
    story = Story()
    story.sample()
    story.report(NOW, xid(119, "critical", 5.0, gpu=None))
    assert codes(story.of_node()) == [("xid", "critical")]
    assert story.of_gpu() == []
