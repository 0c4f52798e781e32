"""Flags from NCCL topology dumps: a GPU or NIC with fewer or slower links than its neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from gpuwatch.diagnose.playbook.topics import steps_of
from gpuwatch.runs.traces.nccl_dump import BusDevice, NcclDump

MIN_PEERS = 3
"""Number of devices that a majority needs."""


class TopologyFlag(Struct, frozen=True):
    """A GPU or NIC with fewer or slower links than most of its kind in one dump, with next steps."""

    code: str
    file: str
    label: str
    rank: int | None
    text: str
    actions: tuple[str, ...] = field(default_factory=lambda: steps_of("slow-link"))


def judge_topology(dump: NcclDump) -> tuple[TopologyFlag, ...]:
    """Return flags for the GPUs and NICs of one dump that are worse than most of their kind."""
    gpus = [each for each in dump.devices if each.kind == "GPU"]
    nics = [each for each in dump.devices if each.kind == "NET"]
    found: list[TopologyFlag] = []
    for devices, code, what, value in (
        (gpus, "topology.nvlinks", "NVLinks", lambda each: each.nvlinks),
        (gpus, "topology.pcie", "GB/s of PCIe", pcie_rate),
        (nics, "topology.pcie", "GB/s of PCIe", pcie_rate),
        (nics, "topology.nic_speed", "Gb/s", lambda each: each.speed_gbps),
        (gpus, "topology.gdr", "GPUDirect RDMA", lambda each: None if each.gdr is None else float(each.gdr)),
    ):
        found += _lower(dump, devices, code, what, value)
    served = [(gpu, how) for gpu in gpus for near, how in [dump.nics_of(gpu)] if near]
    far = [gpu for gpu, how in served if how == "SYS"]
    if len(nics) > 1 and len(far) * 2 <= len(served):  # far from the only NIC they are by design
        for gpu in far:
            text = f"{gpu.label} has no NIC on its own CPU; its neighbours have"
            found.append(TopologyFlag("topology.far_nic", dump.file, gpu.label, gpu.rank, text))
    return tuple(found)


def pcie_rate(device: BusDevice) -> float | None:
    """Return the approximate rate of the link in GB/s per direction: GT/s x lanes / 8 (without line coding).

    None: unknown.
    """
    if device.pcie_gtps is None or device.pcie_width is None:
        return None
    return device.pcie_gtps * device.pcie_width / 8


def _lower(
    dump: NcclDump,
    devices: Sequence[BusDevice],
    code: str,
    what: str,
    value: Callable[[BusDevice], float | None],
) -> list[TopologyFlag]:
    """Return a flag for each device below the value that most of its kind have; none without a majority."""
    known = [(each, number) for each in devices if (number := value(each)) is not None]
    if len(known) < MIN_PEERS:
        return []
    usual, count = Counter(number for _, number in known).most_common(1)[0]
    if count * 2 <= len(known):
        return []
    return [
        TopologyFlag(
            code,
            dump.file,
            each.label,
            each.rank,
            f"{each.label} has {number:g} {what}, its neighbours {usual:g}",
        )
        for each, number in known
        if number < usual
    ]
