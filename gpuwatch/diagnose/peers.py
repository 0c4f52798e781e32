"""A GPU against its neighbours: hotter or slower than the median of those that work as it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from gpuwatch.diagnose.condition import Condition, Evidence
from gpuwatch.fleet.node import STALE_TICKS, Gpu, Node
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import GpuFast

ENOUGH = 4
"""Fewer GPUs have no median worth the name."""
WORKING_PCT = 50.0
EQUAL_PCT = 20.0
"""Utilisations that differ by less count as equal."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One working GPU with fresh values."""

    gpu: Gpu
    fast: GpuFast
    busy: float


def peer_conditions(node: Node, thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """The outliers of a node's working GPUs of one model."""
    fresh = STALE_TICKS * node.interval_s
    models: dict[str, list[Peer]] = {}
    for gpu in node.gpus.values():
        fast = gpu.fast
        if fast is None or gpu.fast_at is None or now - gpu.fast_at > fresh or gpu.state != "ok":
            continue
        if fast.utilization_pct is not None and fast.utilization_pct >= WORKING_PCT:
            models.setdefault(gpu.info.name, []).append(Peer(gpu, fast, fast.utilization_pct))
    for peers in models.values():
        if len(peers) >= ENOUGH:
            yield from _hotter(peers, thresholds, now)
            yield from _slower(peers, thresholds, now)


def _hotter(peers: list[Peer], thresholds: Thresholds, now: float) -> Iterator[Condition]:
    known = [(peer, peer.fast.temperature_c) for peer in peers if peer.fast.temperature_c is not None]
    if len(known) < ENOUGH:
        return
    middle = median(degrees for _, degrees in known)
    for peer, degrees in known:
        if degrees - middle >= thresholds.peer_temperature_c:
            evidence = Evidence(
                "temperature", degrees, " C", middle + thresholds.peer_temperature_c, peer.gpu.age(now)
            )
            text = f"{degrees:.0f} C where its neighbours have {middle:.0f} C"
            yield Condition("hotter_than_peers", "warning", text, evidence, peer.gpu.info.index)


def _slower(peers: list[Peer], thresholds: Thresholds, now: float) -> Iterator[Condition]:
    known = [(peer, peer.fast.sm_clock_mhz) for peer in peers if peer.fast.sm_clock_mhz]
    if len(known) < ENOUGH:
        return
    middle, busy = median(clock for _, clock in known), median(peer.busy for peer, _ in known)
    limit = middle * thresholds.peer_clock_pct / 100.0
    for peer, clock in known:
        if clock < limit and abs(peer.busy - busy) <= EQUAL_PCT:
            evidence = Evidence("SM clock", clock, " MHz", round(limit), peer.gpu.age(now))
            text = f"{clock} MHz where its neighbours have {middle:.0f} MHz"
            yield Condition("slower_than_peers", "warning", text, evidence, peer.gpu.info.index)
