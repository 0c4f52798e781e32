"""Conditions of nodes and GPUs, from frames as an agent sends them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health import Condition, gpu_conditions, node_conditions, worst
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node import Gpu, Node
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.demo.links import arrivals
from gpuwatch.link.inbox import Arrival, ClockReading, Content, LinkStatus, Refused

Tier: TypeAlias = wire.GpuFast | wire.GpuMedium | wire.GpuSlow
NOW, EPOCH = 1000.0, 1_700_000_000.0
LIMITS = Thresholds()
FINE = wire.GpuFast(
    t=EPOCH, utilization_pct=98, memory_used_bytes=40 << 30, memory_total_bytes=80 << 30, temperature_c=60,
    memory_temperature_c=70, power_w=500.0, throttle=[], throttle_pct={"sw_thermal": 0.0, "hw_thermal": 0.0},
)  # fmt: skip
MEDIUM = wire.GpuMedium(t=EPOCH, power_limit_w=700.0, pcie_gen=5, pcie_width=16)
SLOW = wire.GpuSlow(
    t=EPOCH,
    ecc_uncorrected=0,
    remap_pending=False,
    remap_failed=False,
    nvlink_active=18,
    recovery_action="none",
)
HOST = wire.HostSample(t=EPOCH, cpu_pct=5.0, memory_total_bytes=100, memory_used_bytes=40)


@functools.cache
def demo(seconds: float) -> Fleet:
    nodes = tuple(NodeSpec(f"gpu-{n:03}", link="demo", slots=8) for n in range(1, 17))
    fleet = Fleet(Plan(nodes))
    for arrival in arrivals(fleet.plan, seconds, ends_at=NOW):
        fleet.apply(arrival)
    return fleet


def every_condition(fleet: Fleet) -> list[tuple[str, Condition]]:
    found: list[tuple[str, Condition]] = []
    for node in fleet.nodes.values():
        found += [(node.name, condition) for condition in node_conditions(node, LIMITS, NOW)]
        for gpu in node.gpu_list():
            found += [(node.name, condition) for condition in gpu_conditions(gpu, node, LIMITS, NOW)]
    return found


def info(index: int = 0) -> wire.GpuInfo:
    return wire.GpuInfo(
        f"GPU-{index}", index, "H100", temperature_slowdown_c=87, temperature_memory_max_c=95, pcie_gen_max=5,
        pcie_width_max=16, nvlink_count=18,
    )  # fmt: skip


class Story:
    """One node whose frames went over the wire into a fleet."""

    def __init__(self, spec: NodeSpec | None = None, gpus: int = 1, **hello: object) -> None:
        self.spec = spec or NodeSpec("n1")
        self.fleet = Fleet(Plan((self.spec,)))
        self.gpus = [info(index) for index in range(gpus)]
        self.tell(NOW - 20, LinkStatus("live"))
        greeting = wire.Hello(
            t=EPOCH - 20, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=self.gpus
        )
        self.tell(NOW - 20, structs.replace(greeting, **hello))

    @property
    def node(self) -> Node:
        return self.fleet.nodes["n1"]

    @property
    def gpu(self) -> Gpu:
        return self.node.gpus["GPU-0"]

    def tell(self, at: float, *what: Content) -> None:
        for each in what:
            told = wire.decode(wire.encode(each)) if isinstance(each, wire.Frame) else each
            self.fleet.apply(Arrival("n1", at, told))

    def sample(self, fast: wire.GpuFast = FINE, at: float = NOW, **rest: Tier | None) -> None:
        t = EPOCH + at - NOW
        tiers: dict[str, Tier | None] = {"fast": fast, "medium": MEDIUM, "slow": SLOW, **rest}
        stamped = {name: None if tier is None else structs.replace(tier, t=t) for name, tier in tiers.items()}
        reading = structs.replace(wire.GpuSample("GPU-0"), **stamped)
        self.tell(at, wire.Sample(t=t, seq=1, gpus=[reading], host=structs.replace(HOST, t=t)))

    def host(self, host: wire.HostSample) -> None:
        self.tell(NOW, wire.Sample(t=EPOCH, seq=2, host=host))

    def of_gpu(self, now: float = NOW) -> list[Condition]:
        return gpu_conditions(self.gpu, self.node, LIMITS, now)

    def of_node(self, now: float = NOW) -> list[Condition]:
        return node_conditions(self.node, LIMITS, now)


def codes(conditions: Sequence[Condition]) -> list[tuple[str, str]]:
    return [(condition.code, condition.severity) for condition in conditions]


def test_a_healthy_cluster_has_no_condition_at_all() -> None:
    assert every_condition(demo(10.0)) == []
    story = Story()
    story.sample()
    assert story.of_gpu() == story.of_node() == []


def test_the_demo_shows_its_straggler_and_then_its_lost_gpu() -> None:
    straggler = every_condition(demo(42.0))
    assert {(name, condition.gpu) for name, condition in straggler} == {("gpu-006", 2)}
    assert {condition.code for _, condition in straggler} == {"temperature", "sw_thermal"}
    fallen = every_condition(demo(60.0))
    assert {(name, condition.gpu) for name, condition in fallen} == {("gpu-011", 5)}
    assert codes([condition for _, condition in fallen]) == [("gpu_lost", "critical"), ("xid", "critical")]
    lost, xid = (condition for _, condition in fallen)
    assert lost.sentence == "GPU 5: lost: GPU is lost"
    assert lost.evidence.age_s is not None and 14 < lost.evidence.age_s < 17
    assert xid.text == "Xid 79: GPU has fallen off the bus"
    assert xid.evidence.age_s == pytest.approx(15.0, abs=1.1)


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
    assert "GPU" not in found.text, "the place is told apart from the text"


def test_old_values_prove_nothing() -> None:
    story = Story()
    story.sample(structs.replace(FINE, temperature_c=95), slow=structs.replace(SLOW, ecc_uncorrected=5))
    assert codes(story.of_gpu(NOW + 10)) == [("ecc_uncorrected", "critical")]
    assert story.of_gpu(NOW + 100) == []
    assert codes(story.of_node(NOW + 100)) == [("node_stale", "warning")]


def test_a_gpu_that_is_silent_while_its_node_speaks() -> None:
    story = Story()
    story.sample()
    story.tell(NOW + 8, wire.Sample(t=EPOCH + 8, seq=9))
    assert codes(story.of_gpu(NOW + 8)) == [("gpu_stale", "warning")]


def test_a_stuck_gpu_says_in_which_call_and_since_when() -> None:
    story = Story()
    story.sample(at=NOW - 6)
    stuck = wire.GpuSample("GPU-0", state="stuck", stuck_in="nvmlDeviceGetPowerUsage", stuck_s=5.2)
    story.tell(NOW, wire.Sample(t=EPOCH, seq=3, gpus=[stuck]))
    (found,) = story.of_gpu()
    assert found.text == "stuck in nvmlDeviceGetPowerUsage for 5.2 s"
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
    assert found.text == "PCIe at gen 3 x8, could be gen 5 x16"


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
    story.tell(NOW, wire.Sample(t=EPOCH, seq=3, gpus=[neighbour]))
    assert codes(story.of_gpu()) == [("nvlink_down", "critical")]


def test_a_lost_node_says_why_and_its_gpus_say_nothing() -> None:
    story = Story()
    story.sample(structs.replace(FINE, temperature_c=95))
    story.tell(NOW + 1, LinkStatus("lost", "Connection reset by peer", retry_at=NOW + 5))
    (found,) = story.of_node(NOW + 7)
    assert codes([found]) == [("node_lost", "critical")]
    assert "reset by peer" in found.text
    assert found.evidence.age_s == 7.0
    assert story.of_gpu(NOW + 7) == []


def test_seven_of_eight() -> None:
    (found,) = Story(NodeSpec("n1", slots=8), gpus=7).of_node(NOW - 19)
    assert (found.severity, found.text) == (
        "critical",
        "7 of 8 GPUs: the others are not listed by the driver",
    )
    assert codes(Story(gpus=7, gpus_expected=8).of_node(NOW - 19)) == [("gpu_missing", "critical")]
    given = wire.Notice("gpu_missing", "2 of 8 GPUs", "info", "a container")
    assert Story(gpus=2, gpus_expected=8, notices=[given]).of_node(NOW - 19) == []
    said = wire.Notice("gpu_missing", "7 of 8 GPUs", "critical", "reboot")
    assert codes(Story(gpus=7, gpus_expected=8, notices=[said]).of_node(NOW - 19)) == [
        ("gpu_missing", "critical")
    ]


def test_a_driver_that_does_not_match_is_told_once() -> None:
    notice = wire.Notice("driver_mismatch", "versions differ", "critical", "reboot the node")
    (found,) = Story(NodeSpec("n1", slots=8), gpus=0, notices=[notice]).of_node(NOW - 19)
    assert codes([found]) == [("driver_mismatch", "critical")]
    assert str(found.evidence) == "reboot the node"


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
        story.tell(NOW, reading)
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
    story.tell(NOW + 3, wire.Sample(t=EPOCH + 3, seq=5, host=structs.replace(HOST, t=EPOCH + 3)))
    (found,) = story.of_node(NOW + 3)
    assert found.code == "disk_full"
    assert found.evidence.age_s == pytest.approx(3.0)


def test_the_watcher_watches_itself() -> None:
    story = Story()
    story.tell(NOW, Refused("not JSON"), wire.Ranks(t=EPOCH, seq=4, partial="stuck on GPU 3"))
    cost = wire.AgentCost(cpu_pct=35.0, rss_bytes=300 << 20, dropped=4)
    story.tell(NOW, wire.Sample(t=EPOCH, seq=5, agent=cost))
    assert codes(story.of_node()) == [
        ("agent_cost", "warning"), ("agent_cost", "warning"), ("frames_refused", "info"),
        ("processes_partial", "info"), ("agent_behind", "info"),
    ]  # fmt: skip


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


def test_the_worst_recent_xid_is_told_and_an_old_one_fades() -> None:
    story = Story()
    story.sample()
    story.tell(NOW, xid(31, "warning", 90_000.0))
    assert story.of_gpu() == []
    story.tell(NOW, xid(48, "critical", 7200.0))
    assert codes(story.of_gpu()) == [("xid", "info")]
    story.tell(NOW, xid(79, "critical", 60.0), xid(45, "info", 30.0))
    (found,) = story.of_gpu()
    assert (found.severity, found.text) == ("critical", "Xid 79: title 79")
    assert found.evidence.age_s == pytest.approx(60.0)
    assert story.of_node() == []


def test_an_xid_of_no_known_gpu_belongs_to_the_node() -> None:
    story = Story()
    story.sample()
    story.tell(NOW, xid(119, "critical", 5.0, gpu=None))
    assert codes(story.of_node()) == [("xid", "critical")]
    assert story.of_gpu() == []


def test_worst() -> None:
    assert worst([]) is None
    fallen = [condition for _, condition in every_condition(demo(60.0))]
    chosen = worst(fallen)
    assert chosen is not None
    assert chosen.code == "gpu_lost"
