"""Reads the static properties of this machine."""

import os
import platform
import re
import socket

from ..base.procfs import clean, names, read_text
from ..processes.process_table import boot_time

_ARM_CORES = {
    ("0x41", "0xd0c"): "Arm Neoverse N1",
    ("0x41", "0xd40"): "Arm Neoverse V1",
    ("0x41", "0xd49"): "Arm Neoverse N2",
    ("0x41", "0xd4f"): "Arm Neoverse V2",
    ("0x41", "0xd83"): "Arm Neoverse V3AE",
    ("0x41", "0xd84"): "Arm Neoverse V3",
    ("0x41", "0xd85"): "Arm Cortex-X925",
}
"""(implementer, part) of /proc/cpuinfo -> core name; Arm has no model name there.

From MIDR_EL1 in Arm's manuals.
"""

_NOT_THE_DRIVERS = ("vfio-pci", "pci-stub", "xen-pciback")
"""Kernel drivers that reserve a GPU for a virtual machine, which hides it from NVML."""


def describe(proc: str = "/proc", etc: str = "/etc") -> "dict[str, object]":
    """Return the host's static properties, a part of the hello frame; unknown values are left out."""
    facts: dict[str, object] = {
        "host": clean(socket.gethostname(), 255),
        "python": platform.python_version(),
        "kernel": platform.release() or None,
        "os": _system_name(etc),
        "cpu_model": _cpu_model(proc),
        "cpu_count": os.cpu_count(),
        "memory_total_bytes": _memory_total(proc),
        "booted_at": boot_time(proc),
        "boot_id": read_text(os.path.join(proc, "sys/kernel/random/boot_id"), 64),
    }
    return {key: value for key, value in facts.items() if value not in (None, "")}


def nvidia_devices_on_bus(sys: str = "/sys") -> "int | None":
    """Return the number of NVIDIA display controllers (PCI class 0x0300, 0x0302) the driver should have.

    Virtual functions and devices passed to virtual machines do not count. None if there is no PCI bus.
    """
    root = os.path.join(sys, "bus/pci/devices")
    if not os.path.isdir(root):
        return None
    return sum(1 for name in names(root) if _is_nvidia_display(os.path.join(root, name)))


def _is_nvidia_display(device: str) -> bool:
    if read_text(os.path.join(device, "vendor"), 16) != "0x10de":
        return False
    if (read_text(os.path.join(device, "class"), 16) or "")[:6] not in ("0x0300", "0x0302"):
        return False
    if os.path.lexists(os.path.join(device, "physfn")):
        return False
    driver = os.path.basename(os.path.realpath(os.path.join(device, "driver")))
    return driver not in _NOT_THE_DRIVERS


def _system_name(etc: str) -> "str | None":
    for path in (os.path.join(etc, "os-release"), os.path.join(etc, "../usr/lib/os-release")):
        match = re.search(r'^PRETTY_NAME="?([^"\n]*)', read_text(path) or "", re.MULTILINE)
        if match:
            return clean(match.group(1), 120)
    version = platform.mac_ver()[0]
    return "macOS " + version if version else platform.system() or None


def _cpu_model(proc: str) -> "str | None":
    text = read_text(os.path.join(proc, "cpuinfo"), 8192) or ""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    known = _ARM_CORES.get((fields.get("CPU implementer", ""), fields.get("CPU part", "")))
    model = fields.get("model name") or known or platform.processor()
    return clean(model, 120) or None


def _memory_total(proc: str) -> "int | None":
    match = re.match(r"MemTotal:\s+(\d+) kB", read_text(os.path.join(proc, "meminfo"), 256) or "")
    if match:
        return int(match.group(1)) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
