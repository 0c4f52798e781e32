"""The registry of named values: reading, ages, widths and scales."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.fleet.nodes.metrics import HEAT_METRICS, METRICS, NODE_METRICS
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.wire import GpuFast, GpuInfo, GpuMedium, HostSample, IbPort, Nic

H100 = GpuInfo("u", 0, "x", power_limit_default_w=700.0, temperature_slowdown_c=87, pcie_gen_max=5,
               pcie_width_max=16, nvlink_count=18)  # fmt: skip


def gpu_with(fast: GpuFast, medium: GpuMedium | None = None) -> Gpu:
    return Gpu(H100, "n", fast=fast, fast_at=90.0, medium=medium, medium_at=None if medium is None else 80.0)


def test_nothing_known_reads_as_nothing_and_prints_as_a_dash() -> None:
    blank, node = Gpu(GpuInfo("u", 0, "x"), "n"), Node(NodeSpec("n"), 1.0)
    for metric in METRICS.values():
        assert metric.read(blank, 100.0) is None, metric.name
        assert metric.level(blank, 100.0) is None, metric.name
        assert metric.age(blank, 100.0) is None, metric.name
        assert metric.format(None).strip() == "-", metric.name
    assert all(metric.read(node, 100.0) is None for metric in NODE_METRICS.values())


def test_power_is_read_against_the_enforced_limit_and_else_the_default() -> None:
    fast = GpuFast(0.0, power_w=350.0)
    assert METRICS["powerpct"].read(gpu_with(fast), 100.0) == 50.0
    capped = gpu_with(fast, GpuMedium(0.0, power_limit_w=400.0))
    assert METRICS["powerpct"].read(capped, 100.0) == 87.5
    assert METRICS["power"].scale(capped) == (0.0, 400.0)
    assert METRICS["power"].age(capped, 100.0) == 10.0
    assert METRICS["limit"].age(capped, 100.0) == 20.0


def test_temperature_is_read_against_this_gpus_own_slowdown_point() -> None:
    metric = METRICS["temp"]
    assert metric.level(gpu_with(GpuFast(0.0, temperature_c=87.0)), 100.0) == 1.0
    assert metric.level(gpu_with(GpuFast(0.0, temperature_c=120.0)), 100.0) == 1.0
    level = metric.level(gpu_with(GpuFast(0.0, temperature_c=58.5)), 100.0)
    assert level == pytest.approx(0.5)


def test_link_scales_come_from_the_hardware() -> None:
    gpu = gpu_with(GpuFast(0.0))
    assert METRICS["pcierx"].scale(gpu) == (0.0, 16 * 3.938e9)
    assert METRICS["nvltx"].scale(gpu) == (0.0, 450e9)
    assert METRICS["nvlink"].scale(gpu) == (0.0, 900e9)
    assert METRICS["ecc"].scale(gpu) is None


def test_a_power_cap_is_no_slowdown() -> None:
    gpu = gpu_with(GpuFast(0.0, throttle_pct={"power_cap": 80.0, "sw_thermal": 3.0, "hw_thermal": 5.0}))
    assert METRICS["throttle"].read(gpu, 100.0) == 5.0
    assert METRICS["powercap"].read(gpu, 100.0) == 80.0


def test_age_is_a_metric_of_its_own() -> None:
    gpu = gpu_with(GpuFast(0.0))
    assert METRICS["age"].read(gpu, 92.5) == 2.5
    assert METRICS["age"].format(2.5) == "2.5s"
    assert set(HEAT_METRICS) <= set(METRICS)


def test_network_rates_add_up_interfaces_and_ports() -> None:
    node = Node(NodeSpec("n"), 1.0)
    node.host = HostSample(0.0, nics=[Nic("a", rx_bps=1e9)], ib=[IbPort("m", 1, rx_bps=2e9), IbPort("m", 2)])
    assert NODE_METRICS["rx"].read(node, 0.0) == 3e9
    assert NODE_METRICS["tx"].read(node, 0.0) is None


@settings(deadline=None)
@given(st.floats(0.0, 1e13), st.sampled_from(sorted(METRICS)))
def test_text_never_outgrows_its_width(value: float, name: str) -> None:
    metric = METRICS[name]
    assert len(metric.format(value)) == metric.width
    assert metric.format(math.floor(value)).strip()
