"""Finds where GPUs and RDMA ports are on the node's buses, and which ports NCCL's settings select."""

import os
import re

from gpuwatch.agent.base.procfs import clean, read_int, read_text
from gpuwatch.probe.launcher.connection.lines import MAX_TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NCCL_SETTINGS = ("NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_TOPO_FILE")
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")
"""Files that NCCL reads; later ones override earlier ones, and the environment overrides both."""
_BUS_ID = re.compile(r"([0-9a-f]+):([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])$")


def of_gpu(bus_id: "str | None", sys: str = "/sys") -> "dict[str, Any]":
    """Return `pci_path` and `numa` of a GPU by its bus id, as NVML writes it; empty: that is no bus id."""
    match = _BUS_ID.match((bus_id or "").lower())
    if match is None:
        return {}
    domain = "{:04x}".format(int(match.group(1), 16))  # the kernel writes four digits, or as many as it takes
    return _place(os.path.join(sys, "bus/pci/devices", "{}:{}".format(domain, match.group(2))), sys)


def of_port(device: str, sys: str = "/sys") -> "dict[str, Any]":
    """Return `pci_path` and `numa` of an RDMA device; empty for one without PCI (a software device)."""
    return _place(os.path.join(sys, "class/infiniband", device, "device"), sys)


def nccl_settings(environ: "dict[str, str]", files: "tuple[str, ...]" = NCCL_FILES) -> "dict[str, str]":
    """Return NCCL's settings that select its ports: those of `files`, overridden by this environment."""
    found: dict[str, str] = {}
    for name in files:
        for line in (read_text(os.path.expanduser(name)) or "").splitlines():
            key, equals, value = line.partition("=")
            if equals:
                found[key.strip()] = value.strip()
    found.update(environ)
    return {key: clean(found[key], MAX_TEXT) for key in NCCL_SETTINGS if found.get(key)}


def _place(link: str, sys: str) -> "dict[str, Any]":
    root = os.path.join(os.path.realpath(sys), "devices") + os.sep
    path = os.path.realpath(link)
    if not (path.startswith(root) and "pci" in path and os.path.isdir(path)):
        return {}
    facts: dict[str, Any] = {"pci_path": clean(path[len(root) :], MAX_TEXT)}
    numa = read_int(os.path.join(path, "numa_node"))
    if numa is not None and numa >= 0:  # -1: the firmware does not state
        facts["numa"] = numa
    return facts
