"""Determines the GPU that a rank's own line calls its device. Pure."""

from __future__ import annotations

import re

from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.wire import Finding

NODE_SIZES = (4, 8, 16)
"""Numbers of ranks on a node of which each has a GPU."""
MAX_READ_CHARACTERS = 600
"""Most characters of a line that are searched for an address."""
_PCI = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7](?![\w.])")
_DEVICE = re.compile(
    r"(?i)(?<![a-z])(?:device|dev|gpu|npu|cuda)(?:[ _-]?id)?[ :=#_-]{0,2}\(?(?:id:)?"
    r"([0-9]{1,2})(?![0-9a-z.])"
)


def pci_address(finding: Finding) -> str | None:
    """Return the PCI address that a driver's line names: the captured one, or the only one; None: neither."""
    address = finding.fields.get("pci") or finding.fields.get("bus_id")
    if address is not None:
        return str(address)
    named = set(_PCI.findall(finding.key_line[:MAX_READ_CHARACTERS]))
    return named.pop() if len(named) == 1 else None


def named_gpu(finding: Finding, place: RankPlace | None, *, live: bool) -> int | None:
    """Return the index of the device that a line names, if it is that of its rank; None: unknown.

    GPU 5 of local rank 5 is GPU 5 of the node. A rank that sees one GPU alone calls it device 0, so 0 shows
    nothing. If the local rank of an ended job is unknown, the device must be the rank, or the rank modulo a
    usual number of GPUs of a node (`NODE_SIZES`).
    """
    placed = None if place is None else place.local_rank
    local = finding.local_rank if placed is None else placed
    if local and finding.fields.get("device") == local:
        return local
    if live or placed is not None:
        return None
    rank = finding.rank if place is None else place.rank
    named = {int(each) for each in _DEVICE.findall(f"{finding.key_line} {finding.file or ''}")}
    device = finding.fields.get("device")
    named |= {device} if isinstance(device, int) else set()
    fitting = {each for each in named if each and rank is not None and _may_be_of(rank, each)}
    return fitting.pop() if len(fitting) == 1 else None


def device_of(device: object, place: RankPlace | None) -> int | None:
    """Return the device number of a cause as a GPU's index, if it fits the rank at fault.

    None: it does not fit, is no number, or is 0, which any rank may call its only GPU.
    """
    if not isinstance(device, int) or not device or place is None:
        return None
    local = place.local_rank
    fits = _may_be_of(place.rank, device) if local is None else local == device
    return device if fits else None


def _may_be_of(rank: int, device: int) -> bool:
    return rank == device or any(rank % size == device for size in NODE_SIZES)
