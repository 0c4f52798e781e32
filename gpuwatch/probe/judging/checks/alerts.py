"""Finds problems that explain slow links without a measurement.

They are: TCP instead of RDMA, ports that are down or slow, counters that increased, slow PCIe links.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from msgspec import Struct

from gpuwatch.number_text import bit_rate, digits, listed
from gpuwatch.probe.protocol import InventoryPort
from gpuwatch.probe.results import CounterChange, Results

TCP = "NET/Socket"
MIN_RETRANSMITS = 100.0
RETRANSMITS_OF_OTHERS = 10.0
"""A node's TCP retransmits are reported from this number on.

They must also be this many times the median of the other nodes: every full queue causes some, so only an
outlier is reported.
"""
FROM = {
    "nvlink:replay": 1,
    "nvlink:recovery": 1,
    "nvlink:crc": 100,
    "pcie:replays": 8,
    "nic:rx_errors": 1,
    "nic:tx_errors": 1,
    "nic:rx_dropped": 100,
    "nic:tx_dropped": 100,
}
"""Counter -> the smallest increase that is reported.

NVLink by DCGM's limits (common/DcgmGPUHardwareLimits.h: one replay or recovery, 100 CRC errors), PCIe replays
by its strictest limit (DcgmHealthWatch.cpp, x16 gen 3, a minute). Interfaces always drop a few packets of
unused protocols.
"""
CONGESTION = ("np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets")
"""Counters of RoCE's congestion control; not errors."""


class NodeAlert(Struct, frozen=True):
    """A sentence about one node."""

    node: str
    text: str


def tcp_instead_of_rdma(results: Results) -> list[str]:
    """Return one sentence if ranks use TCP on nodes with an active RDMA port; else nothing."""
    ranks = set(results.transports.get(TCP, ()))
    nodes = dict.fromkeys(slot.node for slot in results.slots if slot.rank in ranks)
    ports = {node: active[0] for node in nodes if (active := _active(node, results))}
    if not ports:
        return []
    port = next(iter(ports.values()))
    kind = "RoCE" if (port.link_layer or "").lower() == "ethernet" else "IB"
    rate = f" at {bit_rate(port.rate_gbps)}" if port.rate_gbps else ""
    where = listed(list(ports))
    return [f"expected {kind}, got TCP: {port.device} is active{rate}, but NCCL reports {TCP} on {where}"]


def alerts(results: Results) -> list[NodeAlert]:
    """Return alerts of ports worse than the same port of other nodes, increased counters, slow PCIe links."""
    return [*_ports(results), *_counters(results), *_pcie(results)]


def _active(node: str, results: Results) -> list[InventoryPort]:
    inventories = (
        each.inventory for each in results.nodes if each.node == node and each.inventory is not None
    )
    return [port for inventory in inventories for port in inventory.ports if _is_active(port)]


def _is_active(port: InventoryPort) -> bool:
    return (port.state or "").upper() == "ACTIVE"


def _ports(results: Results) -> Iterator[NodeAlert]:
    """Yield an alert for each port that is down or slower, unlike the same port of most other nodes."""
    alike: defaultdict[tuple[str, int], list[tuple[str, InventoryPort]]] = defaultdict(list)
    for each in results.nodes:
        for port in each.inventory.ports if each.inventory else ():
            alike[port.device, port.port].append((each.node, port))
    for (device, number), ports in alike.items():
        up = [port for _, port in ports if _is_active(port)]
        if len(up) * 2 <= len(ports):
            continue
        usual = _usual(port.rate_gbps for port in up)
        for node, port in ports:
            name = f"{node} {device} port {number}"
            if not _is_active(port):
                state = (port.state or "in an unknown state").lower()
                yield NodeAlert(node, f"{name} is {state}; on the other nodes this port is active")
            elif port.rate_gbps and usual and port.rate_gbps < usual:
                rate = f"{name} runs at {bit_rate(port.rate_gbps)}"
                yield NodeAlert(node, f"{rate}; on the other nodes this port runs at {bit_rate(usual)}")


def _counters(results: Results) -> Iterator[NodeAlert]:
    grown = {(each.node, each.name): each.after - each.before for each in results.counters}
    gpus, nodes = _gpu_names(results), {slot.node for slot in results.slots}
    for (node, name), more in grown.items():
        kind, _, rest = name.partition(":")
        if name.startswith("=") or more <= 0:
            continue
        where, _, what = rest.rpartition(":")
        if name == "tcp:retransmits":
            others = [grown.get((each, name), 0.0) for each in nodes if each != node]
            if others and more >= max(MIN_RETRANSMITS, RETRANSMITS_OF_OTHERS * median(others)):
                usual = f"the other nodes {digits(median(others))} (median)"
                yield NodeAlert(node, f"{node}: {digits(more)} TCP segments retransmitted, {usual}")
        elif kind == "ib" and what not in CONGESTION:
            yield NodeAlert(node, f"{node} {where}: {what} grew by {digits(more)} during the probe")
        elif more >= FROM.get(f"{kind}:{what}", float("inf")):
            place = gpus.get(where, where)
            yield NodeAlert(node, f"{node} {place}: {kind} {what} grew by {digits(more)} during the probe")


def _pcie(results: Results) -> Iterator[NodeAlert]:
    """Yield an alert for each GPU whose PCIe link under load is slower than others of the same model."""
    models = _gpu_models(results)
    gauges: defaultdict[tuple[str, str], list[tuple[CounterChange, str]]] = defaultdict(list)
    for each in results.counters:
        kind, _, rest = each.name.partition(":")
        uuid, _, what = rest.rpartition(":")
        if kind == "=pcie" and uuid in models:
            gauges[models[uuid], what].append((each, uuid))
    gpus = _gpu_names(results)
    for (_, what), found in gauges.items():
        usual = _usual(each.after for each, _ in found)
        sign = "x" if what == "width" else "gen "
        for each, uuid in found:
            if usual is not None and each.after < usual:
                numbers = f"{sign}{each.after:.0f} under load, its peers {sign}{usual:.0f}"
                yield NodeAlert(each.node, f"{each.node} {gpus[uuid]}: PCIe {numbers}")


def _usual(values: Iterable[float | None]) -> float | None:
    """Return the value that more than half of the values are equal to; None if there is none."""
    every = list(values)
    value, count = Counter(every).most_common(1)[0]
    return value if count * 2 > len(every) else None


def _gpu_names(results: Results) -> Mapping[str, str]:
    return {
        gpu.uuid: f"GPU {gpu.index}"
        for each in results.nodes
        if each.inventory
        for gpu in each.inventory.gpus
    }


def _gpu_models(results: Results) -> Mapping[str, str]:
    return {
        gpu.uuid: gpu.name or "" for each in results.nodes if each.inventory for gpu in each.inventory.gpus
    }
