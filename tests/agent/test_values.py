"""What a healthy node tells: every value with its unit, rates from NVML's clock, and at what price."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from gpuwatch.wire import GpuFast, GpuMedium, GpuSlow, Sample, SetInterval
from tests.agent.conftest import Start
from tests.agent.running import ORDINARY, RunningAgent, uuid_of
from tests.fake_nvml.build import FakeNvml

GIB = 1 << 30


def test_the_hello_lists_eight_gpus_with_their_limits_and_topology(healthy: RunningAgent) -> None:
    hello = healthy.hello(lambda h: h.topology is not None and "?" not in h.topology.links[0])
    assert [gpu.uuid for gpu in hello.gpus] == [uuid_of(i) for i in range(8)]
    gpu = hello.gpus[5]
    assert (gpu.name, gpu.index, gpu.bus_id) == ("NVIDIA H100 80GB HBM3", 5, "00000000:15:00.0")
    assert (gpu.power_limit_default_w, gpu.power_limit_max_w) == (700.0, 700.0)
    assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c, gpu.temperature_memory_max_c) == (
        90,
        95,
        98,
    )
    assert (gpu.pcie_gen_max, gpu.pcie_width_max, gpu.nvlink_count) == (5, 16, 18)
    assert (gpu.ecc_enabled, gpu.persistence, gpu.mig_enabled, gpu.gpm) == (True, True, False, True)
    assert (gpu.numa_node, gpu.cpu_affinity, gpu.architecture) == (1, "2-3", "Hopper")
    assert (hello.driver, hello.cuda, hello.agent) == ("550.54.15", "12.4", "test")
    assert hello.topology is not None
    assert hello.topology.links[0] == ["X"] + ["NV18"] * 7
    assert hello.host and hello.kernel and hello.cpu_count


def test_the_fast_tier_has_every_value_in_its_unit(start: Start, fake: FakeNvml) -> None:
    values = {"utilization": 93, "memory_used": GIB, "temperature": 71, "power_mw": 512345}
    values.update(sm_clock=1755, reasons=0x44)
    fake.set(*[f"set 2 {name} {value}" for name, value in values.items()])
    fast = start().gpu(2, lambda g: g.fast is not None and g.fast.sm_activity_pct is not None).fast
    assert fast is not None
    assert (fast.utilization_pct, fast.temperature_c, fast.memory_temperature_c) == (93, 71, 61)
    assert (fast.memory_used_bytes, fast.memory_total_bytes, fast.memory_reserved_bytes) == (
        GIB,
        80 * GIB,
        GIB,
    )
    assert fast.power_w == 512.3  # noise is left out
    assert fast.sm_clock_mhz == 1755
    assert fast.throttle == ["power_cap", "hw_thermal"]
    assert fast.energy_j is not None and fast.energy_j > 0 and fast.energy_j.is_integer()
    assert (fast.sm_activity_pct, fast.sm_occupancy_pct, fast.tensor_activity_pct) == (82, 42, 32)
    assert (fast.dram_activity_pct, fast.fp32_activity_pct) == (52, 12)


def test_counters_become_rates_even_when_the_driver_is_slow(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 3", "latency_us 15000")
    fast = (
        start(interval_s=0.5).gpu(2, lambda g: g.fast is not None and g.fast.nvlink_tx_bps is not None).fast
    )
    assert fast is not None
    assert fast.nvlink_tx_bps == pytest.approx(18 * 3000 * 1024, rel=0.01)
    assert fast.nvlink_rx_bps == pytest.approx(18 * 6000 * 1024, rel=0.01)
    assert fast.pcie_tx_bps == pytest.approx(9e6, rel=0.005)
    assert fast.pcie_rx_bps == pytest.approx(15e6, rel=0.005)
    assert fast.throttle_pct is not None
    assert fast.throttle_pct["power_cap"] == pytest.approx(25.0, abs=0.1)
    assert fast.throttle_pct["hw_thermal"] == 0.0


def test_links_are_added_up_where_the_driver_gives_no_total(start: Start, fake: FakeNvml) -> None:
    """As Blackwell does it: fields 138 and 139 are gone, 202 and 204 count bytes for each link."""
    fake.set("gpus 1", "field 0 138 3", "field 0 139 3", "raw 0 202 5", "raw 0 204 7", "no_gpm 1")
    sample = start().gpu(0, lambda g: g.fast is not None and g.fast.nvlink_tx_bps is not None)
    assert sample.fast is not None
    assert (sample.fast.nvlink_tx_bps, sample.fast.nvlink_rx_bps) == (0.0, 0.0)


def test_gpm_fills_in_the_rates_that_no_counter_gives(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 1", "field 0 197 3", "field 0 198 3")
    agent = start()
    sample = agent.gpu(0, lambda g: g.fast is not None and g.fast.pcie_tx_bps is not None)
    assert sample.fast is not None and sample.fast.pcie_tx_bps == pytest.approx(100 * 1048576, rel=0.005)


def test_activity_is_there_at_the_second_tick(start: Start) -> None:
    agent = start(interval_s=0.5)
    agent.gpu(3, lambda g: g.fast is not None and g.fast.tensor_activity_pct is not None)
    fast = [g.fast for f in agent.frames if isinstance(f, Sample) for g in f.gpus if g.uuid == uuid_of(3)]
    read = [one.tensor_activity_pct for one in fast if one is not None]
    assert len(read) <= 2 and read[-1] == 33


def test_ticks_far_apart_read_everything_each_time(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 1")
    agent = start(interval_s=2.0)
    agent.gpu(0, lambda g: g.fast is not None and g.fast.nvlink_tx_bps is not None)
    agent.until(lambda fs: sum(isinstance(f, Sample) for f in fs) >= 2, "two samples")
    fast = [g.fast for f in agent.frames if isinstance(f, Sample) for g in f.gpus if g.fast is not None]
    assert all(one.temperature_c is not None and one.throttle is not None for one in fast if one)
    assert all(one.tensor_activity_pct == 30 for one in fast if one)
    counts = [fake.calls()[name][0] for name in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperature")]
    assert counts[0] == counts[1]


def test_the_slower_tiers_have_limits_links_and_health(healthy: RunningAgent) -> None:
    agent = healthy

    def medium_of(index: int) -> GpuMedium:
        found = agent.gpu(index, lambda g: g.medium is not None).medium
        assert found is not None
        return found

    def slow_of(index: int) -> GpuSlow:
        found = agent.gpu(index, lambda g: g.slow is not None).slow
        assert found is not None
        return found

    medium = medium_of(3)
    assert (medium.power_limit_w, medium.memory_clock_mhz, medium.performance_state) == (650.0, 2619, 0)
    assert (medium.pcie_gen, medium.pcie_width, medium.encoder_pct, medium.decoder_pct) == (5, 16, 0, 7)
    assert medium.fan_pct is None
    slow = slow_of(3)
    assert (
        slow.ecc_corrected,
        slow.ecc_uncorrected,
        slow.ecc_corrected_total,
        slow.ecc_uncorrected_total,
    ) == (0,) * 4
    assert (slow.remapped_correctable, slow.remapped_uncorrectable) == (0, 0)
    assert (slow.remap_pending, slow.remap_failed, slow.recovery_action) == (False, False, "none")
    assert (slow.pcie_replays, slow.nvlink_active) == (3, 18)
    assert slow.retired_pages is None
    missing = agent.gpu(3, lambda g: g.missing is not None and "fan_pct" in g.missing).missing
    assert missing is not None and missing["fan_pct"] == "not_supported"


def test_blank_values_are_left_out(start: Start, fake: FakeNvml) -> None:
    """The sentinels near 2^63 and 2^31 that mean "blank" are no readings."""
    fake.set("gpus 1", f"raw 0 83 {0x7FFFFFFFFFFFFFF0}", f"raw 0 82 {0x7FFFFFF0}")
    fast = start().gpu(0, lambda g: g.fast is not None).fast
    assert isinstance(fast, GpuFast)
    assert fast.energy_j is None and fast.memory_temperature_c is None
    assert fast.power_w is not None


def test_a_process_is_joined_to_its_gpus_with_memory_and_share(start: Start, fake: FakeNvml) -> None:
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                              env={**os.environ, "RANK": "3", "WORLD_SIZE": "8"})  # fmt: skip
    try:
        fake.set(
            "gpus 2", f"process 0 {holder.pid} {3 * GIB} compute 88", f"process 1 {holder.pid} {GIB} mps -1"
        )
        ranks = start().ranks(lambda r: any(len(p.gpus) == 2 for p in r.processes))
        process = next(p for p in ranks.processes if p.pid == holder.pid)
        holds = {hold.uuid: (hold.memory_bytes, hold.sm_pct) for hold in process.gpus}
        assert holds == {uuid_of(0): (3 * GIB, 88), uuid_of(1): (GIB, None)}
        assert (process.rank, process.world_size) == (3, 8)
    finally:
        holder.communicate(b"\n")


def test_more_processes_than_there_was_room_for(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 1", *[f"process 0 {pid} 1000 compute 1" for pid in range(4_100_000, 4_100_150)])
    start().gpu(0, lambda g: g.fast is not None)
    deadline = time.monotonic() + 30
    while (
        fake.calls().get("nvmlDeviceGetComputeRunningProcesses_v3", {}).get(0, 0) < 2
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    assert fake.calls()["nvmlDeviceGetComputeRunningProcesses_v3"][0] == 2


def test_at_most_eight_calls_for_each_gpu_and_second(start: Start, fake: FakeNvml) -> None:
    """Everything five times as fast as on a node, counted by the library once the inventory is done."""
    fake.set(f"process * {os.getpid()} {GIB} compute 50")
    agent = start(interval_s=0.2, **{name: seconds / 5 for name, seconds in ORDINARY.items()})
    agent.hello(lambda h: h.topology is not None and len(h.topology.uuids) == 8)
    agent.until(lambda frames: len(frames) > 6, "settled agent", len(agent.frames))
    begun, before = time.monotonic(), [fake.calls_of(i) for i in range(8)]
    agent.until(lambda frames: len(frames) > 36, "six periods of the 5 s tier", len(agent.frames))
    after = [fake.calls_of(i) for i in range(8)]
    seconds = 5 * (time.monotonic() - begun)  # the counts are taken within them
    calls = [(after[i] - before[i]) / seconds for i in range(8)]
    assert sum(calls) / 8 <= 8.0 + 8.0 / seconds  # a round of calls begins on either edge
    assert max(calls) <= 10.0  # a round of the 5 s tier may stick out of the window at either end


def test_the_agent_says_what_it_costs(healthy: RunningAgent) -> None:
    agent = healthy
    cost = agent.sample(lambda s: s.agent is not None and bool(s.agent.nvml_calls_per_gpu_s)).agent
    assert cost is not None
    assert cost.rss_bytes is not None and cost.rss_bytes < 40.5e6  # 40 MB
    assert cost.threads is not None and cost.threads >= 11
    assert cost.cpu_pct is not None and cost.dropped == 0


def test_the_interval_can_be_changed(start: Start) -> None:
    agent = start(interval_s=30.0)
    agent.hello()
    agent.send(SetInterval(id=4, seconds=0.2))
    assert agent.reply(4).error is None
    agent.until(lambda frames: len([f for f in frames if f.t]) > 5, "quicker frames", len(agent.frames))
    assert agent.hello(lambda h: h.interval_s == 0.2).interval_s == 0.2
