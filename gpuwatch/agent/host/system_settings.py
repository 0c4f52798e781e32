"""Reads machine settings that nodes should share: firmware, kernel, network and driver options."""

import os
import re

from ..base.procfs import clean, names, read_link, read_text
from .net import is_plumbing

MAX_SETTINGS, MAX_VALUE, MAX_DEVICES = 200, 200, 32
_SYSCTLS = (
    "kernel/numa_balancing",
    "vm/max_map_count",
    "vm/nr_hugepages",
    "vm/overcommit_memory",
    "vm/swappiness",
    "vm/zone_reclaim_mode",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/somaxconn",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
)
_FILES = (
    ("bios", "class/dmi/id/bios_version"),
    ("product", "class/dmi/id/product_name"),
    ("cpu.governor", "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("cpu.smt", "devices/system/cpu/smt/control"),
    ("memory.huge_pages", "kernel/mm/transparent_hugepage/enabled"),
    ("pcie.aspm", "module/pcie_aspm/parameters/policy"),
)
_MODULES = ("mlx5_core", "nvidia_peermem", "gdrdrv", "nvidia_fs")
_BOOT_OPTION = re.compile(
    r"(?:\w*iommu|pci|pcie_\w+|mitigations|isolcpus|nohz_full|processor\.\w+|intel_idle\.\w+|numa_\w+|"
    r"default_hugepagesz|hugepages\w*|transparent_hugepage)(?:=\S*)?$"
)
_DRIVER_OPTION = re.compile(r"^(\w+): (\d+)$", re.MULTILINE)
_CHOSEN = re.compile(r"\[(\w+)\]")
"""`always [madvise] never`: the active option is in brackets."""


def system_settings(proc: str = "/proc", sys: str = "/sys") -> "dict[str, str]":
    """Return name -> value of the machine settings that nodes should share; unreadable ones are left out.

    Only known options of the kernel's command line are included, since others may contain secrets.
    """
    found: dict[str, str] = {}
    for name, path in _FILES:
        text = read_text(os.path.join(sys, path), 4096) or ""
        chosen = _CHOSEN.search(text)
        found[name] = chosen.group(1) if chosen else text
    for path in _SYSCTLS:
        text = read_text(os.path.join(proc, "sys", path), 4096) or ""
        found["sysctl." + path.replace("/", ".")] = " ".join(text.split())
    options = read_text(os.path.join(proc, "cmdline"), 65536)
    if options is not None:
        kept = sorted(each for each in options.split() if _BOOT_OPTION.match(each))
        found["kernel.options"] = " ".join(kept) or "none"
    for module in _MODULES:
        folder = os.path.join(sys, "module", module)
        loaded = os.path.isdir(folder)
        found["module." + module] = (
            (read_text(os.path.join(folder, "version"), 256) or "loaded") if loaded else "not loaded"
        )
    for name, value in _DRIVER_OPTION.findall(read_text(os.path.join(proc, "driver/nvidia/params")) or ""):
        found["nvidia." + name] = value
    _network(os.path.join(sys, "class/net"), found)
    _adapters(os.path.join(sys, "class/infiniband"), found)
    known = [(name, value) for name, value in sorted(found.items()) if value][:MAX_SETTINGS]
    return {clean(name, 80): clean(value, MAX_VALUE) for name, value in known}


def _network(root: str, found: "dict[str, str]") -> None:
    for name in [each for each in names(root) if each != "lo" and not is_plumbing(each)][:MAX_DEVICES]:
        folder = os.path.join(root, name)
        if os.path.exists(os.path.join(folder, "device")):
            found["net.{}.mtu".format(name)] = read_text(os.path.join(folder, "mtu"), 64) or ""
            driver = os.path.basename(read_link(os.path.join(folder, "device/driver")) or "")
            found["net.{}.driver".format(name)] = driver


def _adapters(root: str, found: "dict[str, str]") -> None:
    for name in names(root)[:MAX_DEVICES]:
        for key, path in (("firmware", "fw_ver"), ("type", "hca_type"), ("board", "board_id")):
            found["ib.{}.{}".format(name, key)] = read_text(os.path.join(root, name, path), 256) or ""
