"""Compares a GPU with its neighbours: hotter, slower or less used than the median of its peers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from msgspec import Struct

from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import GpuFast

MIN_PEERS = 4
"""Least number of GPUs that a meaningful median needs."""
WORKING_PCT = 50.0
EQUAL_PCT = 20.0
"""Utilizations that differ by less (percentage points) count as equal."""
USED_S = 180
"""Seconds over which utilization is compared; one rank's checkpoint or evaluation is mostly shorter."""
PARTLY_PCT, ALWAYS_PCT = 5.0, 70.0
"""Percent of utilization: below the first a GPU is idle or of another job.

Above the second it always works.
"""
ALONE_POWER_FACTOR = 1.3
"""Multiple of its peers' power from which a GPU does more work than they do.

A rank that evaluates alone while the others spin in a collective is hotter and, at its power limit, slower
than they are, and healthy.
"""
SLOWED = frozenset(("sw_thermal", "hw_thermal", "power_brake", "hw_slowdown"))
"""Clock-event reasons of a GPU with a problem; a power cap is normal under load."""


class PeerGpu(Struct, frozen=True):
    """A working GPU with fresh values, and its utilization `busy` in percent."""

    gpu: Gpu
    fast: GpuFast
    busy: float


def peer_conditions(node: Node, thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield a condition for each outlier among a node's GPUs of one model."""
    models: dict[str, list[PeerGpu]] = {}
    for gpu in node.gpus.values():
        fast = gpu.fast_of_late(node.interval_s, now)
        if fast is None or gpu.state != "ok":
            continue
        if fast.utilization_pct is not None and fast.utilization_pct >= WORKING_PCT:
            models.setdefault(gpu.info.name, []).append(PeerGpu(gpu, fast, fast.utilization_pct))
    for peers in models.values():
        if len(peers) >= MIN_PEERS:
            yield from _hotter(peers, thresholds, now)
            yield from _slower(peers, thresholds, now)
    yield from _less_used(node, thresholds, now)


def _less_used(node: Node, thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield a condition if one GPU works part of the time for minutes, while its peers always work.

    None is yielded for MIN_PEERS GPUs or more if the log of a rank is followed: `straggler` is then more
    precise.
    """
    models: dict[str, list[tuple[Gpu, float]]] = {}
    for gpu in node.gpus.values():
        fast = gpu.fast_of_late(node.interval_s, now)
        busy = gpu.history.mean("util", USED_S, now) if fast is not None and gpu.state == "ok" else None
        if busy is not None and busy > PARTLY_PCT:
            models.setdefault(gpu.info.name, []).append((gpu, busy))
    logged = any(process.rank is not None and process.logs for process in node.processes)
    for known in models.values():
        low = sorted(known, key=lambda each: each[1])
        if len(known) < 2 or (logged and len(known) >= MIN_PEERS):
            continue
        (gpu, busy), others = low[0], [each[1] for each in low[1:]]
        limit = median(others) * thresholds.peer_busy_pct / 100.0
        if min(others) >= ALWAYS_PCT and busy < limit:
            evidence = Evidence(f"mean utilization over {USED_S // 60} min", round(busy), " %", round(limit))
            text = f"busy {busy:.0f} % of the time, its peers {median(others):.0f} %"
            yield Condition("less_used_than_peers", "warning", text, evidence, gpu.info.index)


def works_alone(fast: GpuFast, power_w: float | None, usual_w: float | None) -> bool:
    """Return True if the power of a GPU shows that it differs only because it works while its peers wait.

    `power_w`: its power; `usual_w`: the usual power of its peers (watts).
    """
    if SLOWED.intersection(fast.throttle or ()) or power_w is None or not usual_w:
        return False
    return power_w >= ALONE_POWER_FACTOR * usual_w


def _usual_w(peers: list[PeerGpu]) -> float | None:
    watts = [peer.fast.power_w for peer in peers if peer.fast.power_w is not None]
    return median(watts) if watts else None


def _hotter(peers: list[PeerGpu], thresholds: Thresholds, now: float) -> Iterator[Condition]:
    known = [(peer, peer.fast.temperature_c) for peer in peers if peer.fast.temperature_c is not None]
    if len(known) < MIN_PEERS:
        return
    middle, usual_w = median(degrees for _, degrees in known), _usual_w(peers)
    for peer, degrees in known:
        hotter = degrees - middle >= thresholds.peer_temperature_c
        if hotter and not works_alone(peer.fast, peer.fast.power_w, usual_w):
            evidence = Evidence(
                "temperature", degrees, " C", middle + thresholds.peer_temperature_c, peer.gpu.age(now)
            )
            text = f"{degrees:.0f} C, its peers {middle:.0f} C"
            yield Condition("hotter_than_peers", "warning", text, evidence, peer.gpu.info.index)


def _slower(peers: list[PeerGpu], thresholds: Thresholds, now: float) -> Iterator[Condition]:
    known = [(peer, peer.fast.sm_clock_mhz) for peer in peers if peer.fast.sm_clock_mhz]
    if len(known) < MIN_PEERS:
        return
    middle, busy = median(clock for _, clock in known), median(peer.busy for peer, _ in known)
    limit, usual_w = middle * thresholds.peer_clock_pct / 100.0, _usual_w(peers)
    for peer, clock in known:
        slower = clock < limit and abs(peer.busy - busy) <= EQUAL_PCT
        if slower and not works_alone(peer.fast, peer.fast.power_w, usual_w):
            evidence = Evidence("SM clock", clock, " MHz", round(limit), peer.gpu.age(now))
            text = f"{clock} MHz, its peers {middle:.0f} MHz"
            yield Condition("slower_than_peers", "warning", text, evidence, peer.gpu.info.index)
