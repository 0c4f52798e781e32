"""Defines what is read of one GPU every second, every 5 s and every 30 s.

At most 8 NVML calls per GPU and second on average. The 1 s tier makes four calls at every tick and two more
that alternate: temperature and clock-event reasons at one tick, GPM (2 calls) at the next; so these values
may be one tick older than the others. Ticks of 2 s and more have room for all of them. The 5 s tier makes 7
or 8, processes 2 (see `gpu_processes`), the 30 s tier two.
"""

import time

from ..base.rates import Rate
from . import field_values, gpm, mig
from .field_values import FactSource, FieldBatch
from .nvml import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller

_GPU = 0
"""Scope of the power fields: 0 is the GPU, 1 the module."""
_NS_PER_S_TO_PCT = 1e-7
_KIB = 1024

REASONS = (
    (0x1, "idle"),
    (0x2, "app_clocks"),
    (0x4, "power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "power_brake"),
    (0x100, "display"),
)
"""Bits of nvmlClocksEventReasons."""

RECOVERY = (
    "none",
    "gpu_reset",
    "node_reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex_domain",
    "bus_reset",
    "system_reboot",
)
"""Values of nvmlDeviceGpuRecoveryAction_t."""
RECOVERY_WORDS = {
    "gpu_reset": "a reset of the GPU",
    "node_reboot": "a reboot of the node",
    "drain_p2p": "an end of its peer-to-peer traffic (drain P2P)",
    "drain_and_reset": "a reset once its programs have ended (drain and reset)",
    "recover_imex_domain": "a recovery of its IMEX domain",
    "bus_reset": "a reset of its PCIe bus",
    "system_reboot": "a reboot of the node",
}
"""What the driver requests with each of them."""


class FastTier(object):
    """Reads the 1 s tier of one GPU."""

    def __init__(self, asker: "NvmlCaller", handle: "Any", info: "dict[str, Any]") -> None:
        self._asker = asker
        self._handle = handle
        self.unified = bool(info.get("unified_memory"))
        self._gpm = gpm.Gpm(asker, handle) if info.get("gpm") else None
        self._batch = FieldBatch(_fast_fields(info.get("nvlink_count") or 0))
        self._rates: dict[str, Rate] = {}
        self._heat: dict[str, Any] = {}
        self._activity: dict[str, float] = {}
        self._activity_next = False

    def forget(self) -> None:
        """Drop previous values after a driver hang, so that no rate, mean or stored value spans it."""
        self._rates, self._heat, self._activity = {}, {}, {}
        if self._gpm is not None:
            self._gpm.forget()

    def read(self, everything: bool) -> "dict[str, Any]":
        """Return the 1 s tier as a dict with the keys of `wire.GpuFast`.

        `everything`: also read the values that alternate between ticks.

        Raises:
            GpuLost: as `NvmlCaller.ask`.
        """
        fast: dict[str, Any] = {"t": time.time()}
        load = self._asker.ask(
            "utilization_pct memory_utilization_pct", "nvmlDeviceGetUtilizationRates", self._handle
        )
        if load is not None:
            fast["utilization_pct"], fast["memory_utilization_pct"] = number(load.gpu), number(load.memory)
        if not self.unified:
            fast.update(self._memory())
        fast["sm_clock_mhz"] = number(
            self._asker.ask("sm_clock_mhz", "nvmlDeviceGetClockInfo", self._handle, 1)
        )
        fast.update(self._counters())
        self._alternate(everything)
        fast.update(self._heat)
        for name, value in self._activity.items():
            fast.setdefault(name, value)
        return {name: value for name, value in fast.items() if value is not None}

    def _memory(self) -> "dict[str, Any]":
        version = getattr(self._asker.nvml.binding, "nvmlMemory_v2", None)
        memory = None
        if version is not None:  # without it, memory that the driver keeps for itself counts as used
            memory = self._asker.ask(
                "memory_reserved_bytes", "nvmlDeviceGetMemoryInfo", self._handle, version
            )
        if memory is None:
            memory = self._asker.ask(
                "memory_used_bytes memory_total_bytes", "nvmlDeviceGetMemoryInfo", self._handle
            )
        if memory is None:
            return {}
        return {
            "memory_used_bytes": number(memory.used),
            "memory_total_bytes": number(memory.total) or None,
            "memory_reserved_bytes": number(getattr(memory, "reserved", None)),
        }

    def _counters(self) -> "dict[str, Any]":
        read = self._batch.read(self._asker, self._handle, "fields")
        found: dict[str, Any] = {}
        for name in ("memory_temperature_c", "power_w", "energy_j"):
            if name in read:
                found[name] = read[name][0]
        throttle = {}
        for reason in field_values.THROTTLE:
            share = self._rate("throttle_pct." + reason, read)
            if share is not None:
                throttle[reason] = round(min(100.0, share), 1)
        if throttle:
            found["throttle_pct"] = throttle
        for name in ("pcie_rx_bps", "pcie_tx_bps", "nvlink_rx_bps", "nvlink_tx_bps"):
            rate = self._rate(name, read)
            if rate is not None:
                found[name] = rate
        return found

    def _rate(self, name: str, read: "dict[str, tuple[float, int]]") -> "float | None":
        value, at_us = read.get(name, (None, 0))
        rate = self._rates.setdefault(name, Rate())
        return rate.advance(value, at_us)

    def _alternate(self, everything: bool) -> None:
        if everything or not self._activity_next:
            self._heat = {"temperature_c": self._temperature(), "throttle": self._throttle()}
        if self._gpm is not None and (everything or self._activity_next):
            self._activity = self._gpm.read()
            self._asker.forget(self._activity)
        self._activity_next = not self._activity_next

    def _temperature(self) -> "int | None":
        return number(self._asker.ask("temperature_c", "nvmlDeviceGetTemperature", self._handle, 0))

    def _throttle(self) -> "list[str] | None":
        """Return the names of the current throttle reasons; None: unknown. Driver 535 renamed the call."""
        bits = self._asker.ask("throttle", "nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        if bits is None:
            bits = self._asker.ask("throttle", "nvmlDeviceGetCurrentClocksThrottleReasons", self._handle)
        return None if bits is None else [name for bit, name in REASONS if bits & bit]


def _fast_fields(links: int) -> "list[FactSource]":
    """Return the facts of the 1 s tier, each with its NVML sources.

    NVLink traffic: the total over all links, else per link, in KiB; since Blackwell per link in bytes.
    """
    every = range(links)
    wanted = [
        FactSource("memory_temperature_c", (1, [(field_values.MEMORY_TEMPERATURE, 0)])),
        FactSource(
            "power_w",
            (1e-3, [(field_values.POWER_INSTANT, _GPU)]),
            (1e-3, [(field_values.POWER_AVERAGE, _GPU)]),
        ),
        FactSource("energy_j", (1e-3, [(field_values.ENERGY, 0)])),
        FactSource("pcie_tx_bps", (1, [(field_values.PCIE_TX_BYTES, 0)])),
        FactSource("pcie_rx_bps", (1, [(field_values.PCIE_RX_BYTES, 0)])),
    ]
    wanted += [
        FactSource("throttle_pct." + reason, (_NS_PER_S_TO_PCT, [(field, 0)]))
        for reason, field in field_values.THROTTLE.items()
    ]
    if links:
        for name, kib, octets in (
            ("nvlink_tx_bps", field_values.NVLINK_TX_KIB, field_values.NVLINK_TX_BYTES),
            ("nvlink_rx_bps", field_values.NVLINK_RX_KIB, field_values.NVLINK_RX_BYTES),
        ):
            wanted.append(
                FactSource(
                    name,
                    (_KIB, [(kib, field_values.ALL_LINKS)]),
                    (_KIB, [(kib, link) for link in every]),
                    (1, [(octets, link) for link in every]),
                )
            )
    return wanted


def medium(asker: "NvmlCaller", handle: "Any") -> "dict[str, Any]":
    """Return the 5 s tier of a GPU as a dict with the keys of `wire.GpuMedium`.

    Raises:
        GpuLost: as `NvmlCaller.ask`.
    """
    limit = number(asker.ask("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", handle))
    encoder = asker.ask("encoder_pct", "nvmlDeviceGetEncoderUtilization", handle)
    decoder = asker.ask("decoder_pct", "nvmlDeviceGetDecoderUtilization", handle)
    state = number(asker.ask("performance_state", "nvmlDeviceGetPerformanceState", handle))
    found = {
        "t": time.time(),
        "memory_clock_mhz": number(asker.ask("memory_clock_mhz", "nvmlDeviceGetClockInfo", handle, 2)),
        "power_limit_w": None if limit is None else limit * 1e-3,
        "pcie_gen": number(asker.ask("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", handle)),
        "pcie_width": number(asker.ask("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", handle)),
        "performance_state": None if state == _P_STATE_UNKNOWN else state,
        "encoder_pct": number(encoder[0]) if encoder else None,
        "decoder_pct": number(decoder[0]) if decoder else None,
        "fan_pct": number(asker.ask("fan_pct", "nvmlDeviceGetFanSpeed", handle)),
    }
    return {name: value for name, value in found.items() if value is not None}


_P_STATE_UNKNOWN = 32


class SlowTier(object):
    """Reads the 30 s tier of one GPU: health counters and MIG instances."""

    _FLAGS = ("remap_pending", "remap_failed", "retired_pending")

    def __init__(self, asker: "NvmlCaller", handle: "Any", info: "dict[str, Any]") -> None:
        self._asker = asker
        self._handle = handle
        self._links = info.get("nvlink_count") or 0
        self._mig = bool(info.get("mig_enabled"))
        self._batch = FieldBatch(_slow_fields(self._links))

    def read(self) -> "dict[str, Any]":
        """Return the 30 s tier as a dict with the keys of `wire.GpuSlow`.

        Raises:
            GpuLost: as `NvmlCaller.ask`.
        """
        slow: dict[str, Any] = {"t": time.time()}
        errors = {}
        for name, (value, _) in self._batch.read(self._asker, self._handle, "health").items():
            if name in self._FLAGS:
                slow[name] = bool(value)
            elif name == "recovery_action":
                slow[name] = RECOVERY[int(value)] if value < len(RECOVERY) else "action {}".format(int(value))
            elif name.startswith("nvlink_errors."):
                errors[name.split(".")[1]] = int(value)
            else:
                slow[name] = int(value)
        if errors:
            slow["nvlink_errors"] = errors
        if self._mig:
            slow["mig"] = mig.instances(self._asker, self._handle)
        return slow


def _slow_fields(links: int) -> "list[FactSource]":
    """Return the facts of the 30 s tier, each with its NVML sources.

    NVLink errors: totals where the GPU has them (before Hopper), else the sum over its links.
    """
    single = (
        ("ecc_corrected", 3),
        ("ecc_uncorrected", 4),
        ("ecc_corrected_total", 5),
        ("ecc_uncorrected_total", 6),
        ("retired_pending", 31),
        ("pcie_replays", 94),
        ("remapped_correctable", 142),
        ("remapped_uncorrectable", 143),
        ("remap_pending", 144),
        ("remap_failed", 145),
        ("recovery_action", field_values.RECOVERY_ACTION),
    )
    wanted = [FactSource(name, (1, [(field, 0)])) for name, field in single]
    wanted.append(FactSource("retired_pages", (1, [(29, 0), (30, 0)])))
    if links:
        every = range(links)
        wanted += [
            FactSource("nvlink_active", (1, [(field_values.NVLINK_STATE, link) for link in every])),
            FactSource("nvlink_errors.crc", (1, [(38, 0), (45, 0)]), (1, [(163, link) for link in every])),
            FactSource("nvlink_errors.replay", (1, [(52, 0)]), (1, [(161, link) for link in every])),
            FactSource("nvlink_errors.recovery", (1, [(59, 0)]), (1, [(162, link) for link in every])),
            FactSource("nvlink_errors.ecc", (1, [(160, 0)])),
        ]
    return wanted
