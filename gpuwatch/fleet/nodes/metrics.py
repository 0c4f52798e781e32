"""The named values of a GPU and of a node: how each is read, its age, its format and its scale.

One registry for the heat map, the tables, the sort keys, the filter and the histories. `read` returns the
last known value, or None if it never was known; `age` returns how old it is. A lost GPU keeps its last
values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.fleet.nodes import units
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.readings import (
    host_memory_pct,
    memory_pct,
    network_bps,
    nvlink_bps,
    pcie_bps,
    slowdown_pct,
)
from gpuwatch.fleet.nodes.units import Quantity
from gpuwatch.number_text import UNKNOWN
from gpuwatch.wire import GpuFast, HostSample

Tier: TypeAlias = Literal["fast", "medium", "slow"]
Scale: TypeAlias = "tuple[float, float] | None"

DEFAULT_SLOWDOWN_C = 90.0
"""Slowdown temperature of a GPU that reports none: between the H100's 87-92 and the A100's 85-92."""
DEFAULT_MEMORY_MAX_C = 95.0
COOL_C = 30.0
PCIE_LANE_BPS = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second of one lane in one direction after line coding, by PCIe generation."""
NVLINK_BPS = 25e9
"""Bytes per second of one link in one direction: NVLink 2 to 4 (V100, A100, H100).

Blackwell has twice that.
"""


class Metric(Struct, frozen=True):
    """A named value of one GPU: how it is read, its unit, its scale and its age."""

    name: str
    title: str
    quantity: Quantity
    tier: Tier
    read_value: Callable[[Gpu], float | None]
    scale_of: Callable[[Gpu], Scale]
    series: str | None = None
    """The history series that stores this value, if any."""

    @property
    def unit(self) -> str:
        """Return the unit for a heading or behind a formatted value."""
        return self.quantity.unit

    @property
    def width(self) -> int:
        """Return the width in terminal cells of the text that `format` returns."""
        return self.quantity.width

    def read(self, gpu: Gpu, now: float) -> float | None:
        """Return the last known value in the metric's unit; None: unknown (never 0)."""
        return gpu.age(now) if self.name == "age" else self.read_value(gpu)

    def age(self, gpu: Gpu, now: float) -> float | None:
        """Return the age of the value in seconds: since its tier was read; None: it never was."""
        at = {"fast": gpu.fast_at, "medium": gpu.medium_at, "slow": gpu.slow_at}[self.tier]
        return None if at is None else max(0.0, now - at)

    def scale(self, gpu: Gpu) -> Scale:
        """Return (low, high) of the heat map's scale for a GPU; None if there is no natural maximum."""
        return self.scale_of(gpu)

    def level(self, gpu: Gpu, now: float) -> float | None:
        """Return the value's position on its scale, 0 to 1; None if the value or the scale is unknown."""
        value, scale = self.read(gpu, now), self.scale_of(gpu)
        if value is None or scale is None or scale[1] <= scale[0]:
            return None
        return min(1.0, max(0.0, (value - scale[0]) / (scale[1] - scale[0])))

    def format(self, value: float | None) -> str:
        """Return the value as fixed-width text; a dash if unknown."""
        return self.quantity.format(value)


class NodeMetric(Struct, frozen=True):
    """A named value of a node: how it is read, and its unit."""

    name: str
    title: str
    quantity: Quantity
    read_value: Callable[[Node, float], float | None]
    series: str | None = None

    def read(self, node: Node, now: float) -> float | None:
        """Return the last known value in the metric's unit; None: unknown (never 0)."""
        return self.read_value(node, now)

    def format(self, value: float | None) -> str:
        """Return the value as fixed-width text; a dash if unknown."""
        return self.quantity.format(value)


# --------------------------------------------------------------------------- reading a GPU


def power_limit_w(gpu: Gpu) -> float | None:
    """Return a GPU's enforced power limit in watts, else its default limit; None: unknown."""
    enforced = None if gpu.medium is None else gpu.medium.power_limit_w
    return enforced or gpu.info.power_limit_default_w


def power_text(gpu: Gpu, now: float) -> str:
    """Return a GPU's power and its limit as `655/700W`; a dash for an unknown one."""
    watts = METRICS["power"].read(gpu, now), power_limit_w(gpu)
    return "/".join(UNKNOWN if each is None else f"{each:.0f}" for each in watts) + "W"


def power_pct(gpu: Gpu) -> float | None:
    """Return a GPU's power in percent of its limit (may slightly exceed 100); None: unknown."""
    limit = power_limit_w(gpu)
    if gpu.fast is None or gpu.fast.power_w is None or not limit:
        return None
    return 100.0 * gpu.fast.power_w / limit


def slowdown_c(gpu: Gpu) -> float | None:
    """Return the temperature (Celsius) at which this GPU throttles; None: it reports none."""
    return None if gpu.info.temperature_slowdown_c is None else float(gpu.info.temperature_slowdown_c)


def _of_fast_tier(derive: Callable[[GpuFast], float | None]) -> Callable[[Gpu], float | None]:
    return lambda gpu: None if gpu.fast is None else derive(gpu.fast)


def _remapped(gpu: Gpu) -> float | None:
    if gpu.slow is None:
        return None
    counts = [n for n in (gpu.slow.remapped_correctable, gpu.slow.remapped_uncorrectable) if n is not None]
    return float(sum(counts)) if counts else None


def _nvlink_errors(gpu: Gpu) -> float | None:
    if gpu.slow is None or gpu.slow.nvlink_errors is None:
        return None
    return float(sum(gpu.slow.nvlink_errors.values()))


def _power_cap(gpu: Gpu) -> float | None:
    if gpu.fast is None or gpu.fast.throttle_pct is None:
        return None
    return gpu.fast.throttle_pct.get("power_cap")


def _fast(field: str) -> Callable[[Gpu], float | None]:
    return lambda gpu: None if gpu.fast is None else getattr(gpu.fast, field)


def _medium(field: str) -> Callable[[Gpu], float | None]:
    return lambda gpu: None if gpu.medium is None else getattr(gpu.medium, field)


def _slow(field: str) -> Callable[[Gpu], float | None]:
    return lambda gpu: None if gpu.slow is None else getattr(gpu.slow, field)


# --------------------------------------------------------------------------- scales


def _fixed(low: float, high: float) -> Callable[[Gpu], Scale]:
    return lambda _gpu: (low, high)


def _up_to(top: Callable[[Gpu], float | None]) -> Callable[[Gpu], Scale]:
    def scale(gpu: Gpu) -> Scale:
        high = top(gpu)
        return (0.0, float(high)) if high else None

    return scale


def _memory_total(gpu: Gpu) -> float | None:
    live = None if gpu.fast is None else gpu.fast.memory_total_bytes
    return live or gpu.info.memory_total_bytes


def _pcie_top(gpu: Gpu) -> float | None:
    lane = PCIE_LANE_BPS.get(gpu.info.pcie_gen_max or 0)
    return lane * gpu.info.pcie_width_max if lane and gpu.info.pcie_width_max else None


def _nvlink_top(gpu: Gpu) -> float | None:
    if not gpu.info.nvlink_count:
        return None
    doubled = (gpu.info.architecture or "").lower() == "blackwell"
    return gpu.info.nvlink_count * NVLINK_BPS * (2 if doubled else 1)


def _no_scale(_gpu: Gpu) -> Scale:
    return None


_PERCENT = _fixed(0.0, 100.0)
_PCIE = _up_to(_pcie_top)
_PCIE_BOTH = _up_to(lambda gpu: 2.0 * (_pcie_top(gpu) or 0.0))
_NVLINK = _up_to(_nvlink_top)
_NVLINK_BOTH = _up_to(lambda gpu: 2.0 * (_nvlink_top(gpu) or 0.0))
_NVLINKS = _up_to(lambda gpu: gpu.info.nvlink_count)
_SM_CLOCK = _up_to(lambda gpu: gpu.info.sm_clock_max_mhz)
_MEMORY_CLOCK = _up_to(lambda gpu: gpu.info.memory_clock_max_mhz)
_POWER_LIMIT = _up_to(lambda gpu: gpu.info.power_limit_max_w)
_PCIE_GENERATION = _up_to(lambda gpu: gpu.info.pcie_gen_max)
_PCIE_WIDTH = _up_to(lambda gpu: gpu.info.pcie_width_max)


def _temperature(gpu: Gpu) -> Scale:
    return (COOL_C, slowdown_c(gpu) or DEFAULT_SLOWDOWN_C)


def _memory_temperature(gpu: Gpu) -> Scale:
    return (COOL_C, float(gpu.info.temperature_memory_max_c or DEFAULT_MEMORY_MAX_C))


# --------------------------------------------------------------------------- the registries


def _of_fast() -> list[Metric]:
    q = units
    return [
        Metric("util", "utilization", q.PERCENT, "fast", _fast("utilization_pct"), _PERCENT, "util"),
        Metric("mem", "memory", q.PERCENT, "fast", _of_fast_tier(memory_pct), _PERCENT, "mem"),
        Metric("memused", "memory used", q.MEMORY, "fast", _fast("memory_used_bytes"), _up_to(_memory_total)),
        Metric("membw", "memory busy", q.PERCENT, "fast", _fast("memory_utilization_pct"), _PERCENT),
        Metric("temp", "temperature", q.CELSIUS, "fast", _fast("temperature_c"), _temperature, "temp"),
        Metric(
            "memtemp",
            "memory temperature",
            q.CELSIUS,
            "fast",
            _fast("memory_temperature_c"),
            _memory_temperature,
        ),
        Metric("power", "power", q.WATTS, "fast", _fast("power_w"), _up_to(power_limit_w), "power"),
        Metric("powerpct", "power % of limit", q.PERCENT, "fast", power_pct, _PERCENT),
        Metric("smclk", "SM clock", q.MEGAHERTZ, "fast", _fast("sm_clock_mhz"), _SM_CLOCK, "smclk"),
        Metric(
            "tensor", "tensor activity", q.PERCENT, "fast", _fast("tensor_activity_pct"), _PERCENT, "tensor"
        ),
        Metric("sm", "SM activity", q.PERCENT, "fast", _fast("sm_activity_pct"), _PERCENT),
        Metric("occupancy", "SM occupancy", q.PERCENT, "fast", _fast("sm_occupancy_pct"), _PERCENT),
        Metric("dram", "DRAM activity", q.PERCENT, "fast", _fast("dram_activity_pct"), _PERCENT),
        Metric("fp32", "FP32 activity", q.PERCENT, "fast", _fast("fp32_activity_pct"), _PERCENT),
        Metric("pcierx", "PCIe in", q.RATE, "fast", _fast("pcie_rx_bps"), _PCIE),
        Metric("pcietx", "PCIe out", q.RATE, "fast", _fast("pcie_tx_bps"), _PCIE),
        Metric("pcie", "PCIe", q.RATE, "fast", _of_fast_tier(pcie_bps), _PCIE_BOTH, "pcie"),
        Metric("nvlrx", "NVLink in", q.RATE, "fast", _fast("nvlink_rx_bps"), _NVLINK),
        Metric("nvltx", "NVLink out", q.RATE, "fast", _fast("nvlink_tx_bps"), _NVLINK),
        Metric("nvlink", "NVLink", q.RATE, "fast", _of_fast_tier(nvlink_bps), _NVLINK_BOTH, "nvlink"),
        Metric("throttle", "throttled", q.PERCENT, "fast", _of_fast_tier(slowdown_pct), _PERCENT, "throttle"),
        Metric("powercap", "power capped", q.PERCENT, "fast", _power_cap, _PERCENT),
        Metric("age", "age", q.SECONDS, "fast", lambda _gpu: None, _fixed(0.0, 10.0)),
    ]


def _of_medium_and_slow() -> list[Metric]:
    q = units
    return [
        Metric("memclk", "memory clock", q.MEGAHERTZ, "medium", _medium("memory_clock_mhz"), _MEMORY_CLOCK),
        Metric("limit", "power limit", q.WATTS, "medium", power_limit_w, _POWER_LIMIT),
        Metric("fan", "fan", q.PERCENT, "medium", _medium("fan_pct"), _PERCENT),
        Metric("enc", "encoder", q.PERCENT, "medium", _medium("encoder_pct"), _PERCENT),
        Metric("dec", "decoder", q.PERCENT, "medium", _medium("decoder_pct"), _PERCENT),
        Metric("pciegen", "PCIe generation", q.COUNT, "medium", _medium("pcie_gen"), _PCIE_GENERATION),
        Metric("pciewidth", "PCIe lanes", q.COUNT, "medium", _medium("pcie_width"), _PCIE_WIDTH),
        Metric("pstate", "performance state", q.COUNT, "medium", _medium("performance_state"), _fixed(0, 12)),
        Metric("ecc", "ECC uncorrected", q.COUNT, "slow", _slow("ecc_uncorrected"), _no_scale),
        Metric("eccsoft", "ECC corrected", q.COUNT, "slow", _slow("ecc_corrected"), _no_scale),
        Metric("remap", "remapped rows", q.COUNT, "slow", _remapped, _no_scale),
        Metric("retired", "retired pages", q.COUNT, "slow", _slow("retired_pages"), _no_scale),
        Metric("replays", "PCIe replays", q.COUNT, "slow", _slow("pcie_replays"), _no_scale),
        Metric("nvlinks", "NVLinks up", q.COUNT, "slow", _slow("nvlink_active"), _NVLINKS),
        Metric("nvlerr", "NVLink errors", q.COUNT, "slow", _nvlink_errors, _no_scale),
    ]


METRICS: dict[str, Metric] = {metric.name: metric for metric in (*_of_fast(), *_of_medium_and_slow())}
"""Every GPU metric by its filter name."""

HEAT_METRICS = ("util", "mem", "powerpct", "temp", "tensor", "age")
"""The metrics that the heat map cycles through, in order."""


def _of_host(derive: Callable[[HostSample], float | None]) -> Callable[[Node, float], float | None]:
    return lambda node, _now: None if node.host is None else derive(node.host)


def _host(field: str) -> Callable[[Node, float], float | None]:
    return lambda node, _now: None if node.host is None else getattr(node.host, field)


def _present(node: Node, _now: float) -> float | None:
    return None if node.hello is None else float(node.gpus_present())


def _of_nodes() -> list[NodeMetric]:
    q = units
    return [
        NodeMetric("cpu", "CPU", q.PERCENT, _host("cpu_pct"), "cpu"),
        NodeMetric("iowait", "I/O wait", q.PERCENT, _host("iowait_pct")),
        NodeMetric("load", "load 1 min", q.LOAD, _host("load_1m")),
        NodeMetric("hostmem", "host memory", q.PERCENT, _of_host(host_memory_pct), "memory"),
        NodeMetric("rx", "network in", q.RATE, _of_host(lambda host: network_bps(host, "rx_bps")), "rx"),
        NodeMetric("tx", "network out", q.RATE, _of_host(lambda host: network_bps(host, "tx_bps")), "tx"),
        NodeMetric("gpus", "GPUs present", q.COUNT, _present),
        NodeMetric("nodeage", "node age", q.SECONDS, lambda node, now: node.age(now)),
    ]


NODE_METRICS: dict[str, NodeMetric] = {metric.name: metric for metric in _of_nodes()}
"""Every node metric by its filter name."""
