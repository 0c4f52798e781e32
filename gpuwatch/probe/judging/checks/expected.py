"""Compares measured rates with those of data sheets and published measurements: advice, never a verdict.

Rates are 10^9 bytes per second in one direction, per GPU. The source of each number is stated with it, and in
docs/probe.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median_low

from msgspec import Struct

from gpuwatch.number_text import bit_rate, percent, rate_with_unit
from gpuwatch.probe.judging.links.links import MeasuredLink
from gpuwatch.probe.results import LinkClass, RankSlot, Results

FLOOR_SHARE = 0.8
"""Fraction of the data-sheet rate that a pair with large messages should reach."""
GBIT = 0.125
"""GB/s per Gb/s."""


class Expected(Struct, frozen=True):
    """The expected rate of one kind of link (GB/s)."""

    name: str
    spec: float
    usual: float
    """The rate that healthy links are known to reach."""
    source: str
    """The source of `usual`."""


NVLINK: tuple[tuple[str, Expected], ...] = (
    (r"V100.*SXM", Expected("NVLink 2", 150, 120, "NCCL's model, 6 links of 20.0")),
    (
        r"A100.*SXM",
        Expected("NVLink 3", 300, 235, "Bekman's ml-engineering book, all_reduce; NCCL's model 240"),
    ),
    (
        r"H100 80GB HBM3|H100.*SXM|H200(?! NVL)",
        Expected("NVLink 4", 450, 396, "Bekman's ml-engineering book, pair copy"),
    ),
    (
        r"G?B200|G?B300",
        Expected("NVLink 5", 900, 682, "Bekman's ml-engineering book, ring; NCCL's model 722"),
    ),
    (r"MI3(00|25)X", Expected("xGMI", 64, 47.7, "Bekman's ml-engineering book, two GPUs")),
)
"""(pattern of a GPU's name, expected rate of its links to the other GPUs of its node)."""
PCIE: tuple[tuple[str, Expected], ...] = (
    (r"P100|V100|\bT4\b|RTX 20", Expected("PCIe 3 x16", 16, 12, "NCCL's model; Azure accepts 9")),
    (r"A100|A10\b|A40\b|RTX 30|\bL40", Expected("PCIe 4 x16", 31, 24, "NCCL's model; Azure accepts 21")),
    (r"H100|H200", Expected("PCIe 5 x16", 63, 55, "Bekman's ml-engineering book; Azure accepts 48")),
)
"""(pattern of a GPU's name, expected rate of its link to the host)."""
PORTS: tuple[tuple[float, Expected], ...] = (
    (100, Expected("EDR InfiniBand", 12.5, 12.0, "NCCL's model")),
    (200, Expected("HDR InfiniBand", 25, 22.5, "Azure accepts 180 Gb/s")),
    (400, Expected("NDR InfiniBand", 50, 47.5, "Azure accepts 380 Gb/s on H100, 360 on H200")),
    (800, Expected("XDR InfiniBand", 100, 96, "NCCL's model; no measurement is published")),
)
"""Rate of a port in Gb/s -> the expected rate of its links."""
ETHERNET = "a rough guide: one TCP connection rarely carries more than 30 to 50 Gb/s"


def advice(results: Results, links: Sequence[MeasuredLink]) -> Iterator[str]:
    """Yield sentences that compare links between and within nodes, and copies from the host, with the tables.

    Args:
        results: The hardware.
        links: Every link with its reference.
    """
    best: dict[LinkClass, float] = {}
    for link in links:
        if link.reference:
            best[link.link] = max(best.get(link.link, 0.0), link.reference)
    gloo = results.backend == "gloo"
    if gloo and best:
        yield "measured over TCP by the CPUs (gloo): NVLink and RDMA are not measured"
    outside = max((rate for name, rate in best.items() if name != "same_node"), default=None)
    if outside is not None:
        yield from _between_nodes(results, outside, gloo=gloo)
    device = next((slot.device for slot in results.slots), "")
    inside = matching(NVLINK, device)
    if inside is not None and "same_node" in best and not gloo:
        yield _compared("links inside of a node", best["same_node"], inside)
    copies = [each.h2d_bps for each in results.gpus.values() if each.h2d_bps is not None]
    pcie = matching(PCIE, device)
    if pcie is not None and copies:
        yield _compared("copies from the host", median_low(copies) / 1e9, pcie)


def matching(table: Sequence[tuple[str, Expected]], name: str) -> Expected | None:
    """Return the first row whose pattern matches a GPU's name, or None."""
    return next((row for pattern, row in table if re.search(pattern, name)), None)


def _between_nodes(results: Results, rate: float, *, gloo: bool) -> Iterator[str]:
    port = None if gloo else _port(results)
    if port is not None:
        yield _compared("links between nodes", rate, port)
        return
    speeds = [speed for slot in results.slots if (speed := _nic_speed(results, slot)) is not None]
    if gloo and speeds:
        speed = min(speeds) / 1e9
        share = f"{rate_with_unit(rate)}, {percent(rate / speed)} of the interface's {bit_rate(speed / GBIT)}"
        yield f"links between nodes reach {share} ({ETHERNET})"


def _compared(what: str, rate: float, row: Expected) -> str:
    spec = f"{percent(rate / row.spec)} of {row.name}'s {rate_with_unit(row.spec)}"
    text = f"{what} reach {rate_with_unit(rate)}: {spec}"
    if rate < FLOOR_SHARE * min(row.usual, row.spec):
        return f"{text}, little: {rate_with_unit(row.usual)} is usual ({row.source})"
    return f"{text}; usual is {rate_with_unit(row.usual)} ({row.source})"


def _port(results: Results) -> Expected | None:
    """Return the expected rates of the slowest active port that ranks use, or of any; None: no active one."""
    nics = {slot.nic for slot in results.slots}
    ports = [port for each in results.nodes if each.inventory for port in each.inventory.ports]
    active = [port for port in ports if (port.state or "").upper() == "ACTIVE" and port.rate_gbps]
    used = [port for port in active if port.device in nics] or active
    rate = min((port.rate_gbps or 0.0 for port in used), default=None)
    known = dict(PORTS)
    if rate is None:
        return None
    if any((port.link_layer or "").lower() == "ethernet" for port in used):
        why = "a rough guide: taken from InfiniBand"
        return Expected(f"RoCE at {bit_rate(rate)}", rate * GBIT, rate * GBIT * 0.9, why)
    why = "a rough guide: 90 % of the link rate"
    return known.get(rate, Expected(f"a port of {bit_rate(rate)}", rate * GBIT, rate * GBIT * 0.9, why))


def _nic_speed(results: Results, slot: RankSlot) -> float | None:
    for each in results.nodes:
        if each.node == slot.node and each.inventory is not None:
            return next((nic.speed_bps for nic in each.inventory.nics if nic.name == slot.nic), None)
    return None
