"""Reads the static properties of a GPU, once when it is identified."""

import os

from . import field_values, gpm, mig
from .field_values import FactSource, FieldBatch
from .nvml import number, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_MEMORY = "memory_total_bytes"


def unidentified(host: str, index: int) -> "dict[str, Any]":
    """Return the keys of `wire.GpuInfo` for a GPU without a known UUID, with a placeholder as UUID."""
    return {"uuid": "unidentified-{}-{}".format(host, index), "index": index, "name": "", "identified": False}


def describe(asker: "NvmlCaller", handle: "Any", index: int) -> "dict[str, Any]":
    """Return the properties of a GPU as a dict with the keys of `wire.GpuInfo`, without unknown ones.

    The UUID may be missing too.

    Raises:
        GpuLost: as `NvmlCaller.ask`.
    """

    def ask(field: str, name: str, *args: "Any") -> "Any":
        return asker.ask(field, name, handle, *args)

    pci = ask("bus_id", "nvmlDeviceGetPciInfo")
    limits = ask("power_limit_max_w", "nvmlDeviceGetPowerManagementLimitConstraints")
    ecc = ask("ecc_enabled", "nvmlDeviceGetEccMode")
    persistence = ask("persistence", "nvmlDeviceGetPersistenceMode")
    memory = number(getattr(ask(_MEMORY, "nvmlDeviceGetMemoryInfo"), "total", None))
    mig_on = mig.enabled(asker, handle)
    default = number(ask("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit"))
    info = {
        "uuid": text(ask("uuid", "nvmlDeviceGetUUID")),
        "index": index,
        "name": text(ask("name", "nvmlDeviceGetName")) or "NVIDIA GPU",
        "bus_id": None if pci is None else text(pci.busId),
        "memory_total_bytes": memory or None,
        "unified_memory": True if not memory and _has_no_memory(asker, memory) else None,
        "power_limit_default_w": _watts(default),
        "power_limit_max_w": _watts(number(limits[1])) if limits else None,
        "temperature_shutdown_c": number(
            ask("temperature_shutdown_c", "nvmlDeviceGetTemperatureThreshold", 0)
        ),
        "temperature_slowdown_c": number(
            ask("temperature_slowdown_c", "nvmlDeviceGetTemperatureThreshold", 1)
        ),
        "temperature_memory_max_c": number(
            ask("temperature_memory_max_c", "nvmlDeviceGetTemperatureThreshold", 2)
        ),
        "sm_clock_max_mhz": number(ask("sm_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", 1)),
        "memory_clock_max_mhz": number(ask("memory_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", 2)),
        "pcie_gen_max": number(ask("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration")),
        "pcie_width_max": number(ask("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth")),
        "nvlink_count": _nvlink_count(asker, handle),
        "ecc_enabled": bool(ecc[0]) if ecc else None,
        "persistence": None if persistence is None else bool(persistence),
        "mig_enabled": mig_on,
        "gpm": False if mig_on else gpm.Gpm.supported(asker, handle),
        "numa_node": number(ask("numa_node", "nvmlDeviceGetNumaNodeId")),
        "cpu_affinity": _affinity(ask("cpu_affinity", "nvmlDeviceGetCpuAffinity", _affinity_words())),
        "vbios": text(ask("vbios", "nvmlDeviceGetVbiosVersion")),
        "serial": text(ask("serial", "nvmlDeviceGetSerial")),
        "architecture": ARCHITECTURES.get(ask("architecture", "nvmlDeviceGetArchitecture") or 0),
    }
    return {name: value for name, value in info.items() if value is not None}


def _has_no_memory(asker: "NvmlCaller", memory: "int | None") -> bool:
    """Return True if the GPU has no own memory (GB10, some Grace parts): unsupported query, or 0."""
    return memory == 0 or asker.missing.get(_MEMORY) == "not_supported"


def _watts(milliwatts: "int | None") -> "float | None":
    return None if milliwatts is None else milliwatts * 1e-3


def _nvlink_count(asker: "NvmlCaller", handle: "Any") -> "int | None":
    """Return the number of NVLinks (field 91), or None; it grew from 6 to 36 over the years."""
    batch = FieldBatch([FactSource("nvlink_count", (1, [(field_values.NVLINK_COUNT, 0)]))])
    found = batch.read(asker, handle, "nvlink_count")
    return int(found["nvlink_count"][0]) if "nvlink_count" in found else None


def _affinity_words() -> int:
    return max(1, ((os.cpu_count() or 1) + 63) // 64)


def _affinity(words: "Any") -> "str | None":
    """Return CPU bit masks (64 each) in the kernel's list format: `0-31,64-95`; None: no CPU, or unknown."""
    if words is None:
        return None
    cpus = [i * 64 + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    ranges: list[list[int]] = []
    for cpu in cpus:
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else "{}-{}".format(a, b) for a, b in ranges) or None
