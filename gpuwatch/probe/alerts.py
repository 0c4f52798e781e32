"""What to know before any number: the wrong transport, ports that are down, counters that moved meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.probe.results import Results
from gpuwatch.probe.talk import GroundPort
from gpuwatch.probe.words import listed

TCP = "NET/Socket"


def tcp_instead_of_rdma(results: Results) -> list[str]:
    """Nodes with an active RDMA port whose ranks talk over TCP: a tenth of what they could have."""
    ranks = set(results.transports.get(TCP, ()))
    found = []
    for ground in results.nodes:
        ports = [port for port in (ground.ground.ports if ground.ground else ()) if active(port)]
        if ports and any(seat.node == ground.node and seat.rank in ranks for seat in results.seats):
            found.append((ground.node, ports[0]))
    if not found:
        return []
    port = found[0][1]
    kind = "RoCE" if (port.link_layer or "").lower() == "ethernet" else "IB"
    rate = f" at {port.rate_gbps:g} Gb/s" if port.rate_gbps else ""
    nodes = listed([node for node, _ in found])
    return [f"expected {kind}, got TCP: {port.device} is active{rate}, but NCCL says {TCP} on {nodes}"]


def active(port: GroundPort) -> bool:
    """`ACTIVE`, or `4: ACTIVE` as the kernel prints it."""
    return port.state is not None and port.state.split(":")[-1].strip().upper() == "ACTIVE"


def alerts(results: Results) -> Iterator[str]:
    """Everything of this kind."""
    yield from tcp_instead_of_rdma(results)
    for change in results.counters:
        if not change.name.startswith("=") and change.after > change.before:
            yield f"{change.node}: {change.name} +{change.after - change.before:.0f} during the probe"
