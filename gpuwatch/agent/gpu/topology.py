"""Reads the topology of a node's GPUs, in the codes of `nvidia-smi topo -m`."""

from .nvml import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller

_SELF = "X"
_UNKNOWN = "?"
_ANCESTOR = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t -> code; 0 is two GPUs on one board."""
_GPU, _SWITCH = 0, 2
"""nvmlIntNvLinkDeviceType_t."""


def row(
    asker: "NvmlCaller", handle: "Any", links: int, peers: "dict[str, tuple[Any, str]]"
) -> "dict[str, str]":
    """Return UUID -> topology code (NV18, PIX, ...; `?`: unknown) from one GPU to each of its peers.

    `peers`: UUID -> (handle, bus id).

    Raises:
        GpuLost: as `NvmlCaller.ask`.
    """
    to_switch, to_peer = _links(asker, handle, links)
    codes = {}
    for uuid, (peer, bus_id) in peers.items():
        joined = to_peer.get(bus_id, 0) + to_switch
        if joined:
            codes[uuid] = "NV{}".format(joined)
            continue
        level = asker.ask("topology", "nvmlDeviceGetTopologyCommonAncestor", handle, peer)
        codes[uuid] = _ANCESTOR.get(level, _UNKNOWN)
    return codes


def _links(asker: "NvmlCaller", handle: "Any", links: int) -> "tuple[int, dict[str, int]]":
    """Return (number of active NVLinks to a switch, bus id of a peer -> number of active NVLinks to it)."""
    to_switch = 0
    to_peer: dict[str, int] = {}
    for link in range(links):
        if not asker.ask("topology", "nvmlDeviceGetNvLinkState", handle, link):
            continue
        kind = asker.ask("topology", "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        if kind == _SWITCH:
            to_switch += 1
        elif kind == _GPU:
            remote = asker.ask("topology", "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
            bus_id = text(remote.busId) if remote is not None else None
            if bus_id:
                to_peer[bus_id] = to_peer.get(bus_id, 0) + 1
    return to_switch, to_peer


def matrix(rows: "dict[str, dict[str, str]]") -> "dict[str, Any] | None":
    """Return the keys of `wire.Topology`, made from UUID -> row; None for fewer than two GPUs.

    The row of a GPU that did not answer is derived from those of the others.
    """
    uuids = list(rows)
    if len(uuids) < 2:
        return None
    links = [
        [_SELF if a == b else rows[a].get(b) or rows[b].get(a) or _UNKNOWN for b in uuids] for a in uuids
    ]
    return {"uuids": uuids, "links": links}
