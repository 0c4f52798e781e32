"""Finds the RDMA port that a GPU's traffic uses: the nearest one on the buses, as NCCL chooses. Pure.

NCCL (src/graph/topo.cc, paths.cc) prefers a NIC behind the same PCIe switch (PIX), then behind several
switches of one root port (PXB), then on the same CPU (PHB), then anywhere (SYS). If several are equally near,
NCCL distributes the traffic by its own rules, and the port is unknown here.
"""

from __future__ import annotations

from typing import TypeAlias

from gpuwatch.probe.protocol import InventoryGpu, InventoryPort, NodeInventory

SOCKETS = "socket"
"""The value of NCCL_NET in a job that uses TCP."""
ONE_SWITCH = 2
"""Two devices behind one PCIe switch are at most this many steps below their common ancestor.

The steps are a port of the switch and the device.
"""
Distance: TypeAlias = int
PIX, PXB, PHB, SYS = range(4)


def usable_ports(inventory: NodeInventory) -> list[InventoryPort]:
    """Return the active ports that NCCL's settings allow; none if it is set to use sockets."""
    settings = inventory.nccl
    if settings.get("NCCL_IB_DISABLE") not in {None, "0"} or settings.get("NCCL_NET", "").lower() == SOCKETS:
        return []
    chosen = settings.get("NCCL_IB_HCA", "")
    return [
        port for port in inventory.ports if "ACTIVE" in (port.state or "").upper() and _chosen(port, chosen)
    ]


def device_of(inventory: NodeInventory, gpu: InventoryGpu) -> str | None:
    """Return the RDMA device that a GPU's traffic uses; None if there is none or it is not clear which."""
    ports = usable_ports(inventory)
    if len({port.device for port in ports}) == 1:
        return ports[0].device
    # A topology file stands for what a virtual machine does not show on its buses.
    if "NCCL_TOPO_FILE" in inventory.nccl or gpu.pci_path is None or any(p.pci_path is None for p in ports):
        return None
    distances = {port: distance(gpu, port) for port in ports}
    nearest = [port for port in ports if distances[port] == min(distances.values())]
    fastest = max((port.rate_gbps or 0.0 for port in nearest), default=0.0)
    devices = {port.device for port in nearest if (port.rate_gbps or 0.0) == fastest}
    return devices.pop() if len(devices) == 1 else None


def distance(gpu: InventoryGpu, port: InventoryPort) -> Distance:
    """Return PIX, PXB, PHB or SYS, by the paths under /sys/devices, else by the NUMA nodes."""
    here, there = (gpu.pci_path or "").split("/"), (port.pci_path or "").split("/")
    shared = 0
    while shared < min(len(here), len(there)) and here[shared] == there[shared]:
        shared += 1
    if shared >= 2:  # the root complex and one of its ports
        below = max(len(here), len(there)) - shared
        return PIX if below <= ONE_SWITCH else PXB
    if gpu.numa is not None and port.numa is not None:
        return PHB if gpu.numa == port.numa else SYS
    return PHB if shared else SYS


def _chosen(port: InventoryPort, setting: str) -> bool:
    """Return True if the setting NCCL_IB_HCA selects a port.

    Its names are prefixes; a leading `=` requires whole names, a leading `^` excludes them.
    """
    names = setting.lstrip("^=")
    if not names:
        return True
    exact = "=" in setting[: len(setting) - len(names)]
    found = any(_matches(port, name, exact=exact) for name in names.split(","))
    return found != setting.startswith("^")


def _matches(port: InventoryPort, name: str, *, exact: bool) -> bool:
    device, _, number = name.partition(":")
    if number and number != str(port.port):
        return False
    return port.device == device if exact else port.device.startswith(device)
