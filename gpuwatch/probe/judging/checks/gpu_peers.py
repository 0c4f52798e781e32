"""Compares a GPU's own work with other GPUs of the same model: matrix multiplication and copies."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct

from gpuwatch.number_text import digits, percent
from gpuwatch.probe.judging.links.attribution import label
from gpuwatch.probe.judging.links.links import BAD_RATIO, OK_RATIO
from gpuwatch.probe.judging.links.peer_reference import confirmed_best_tenth
from gpuwatch.probe.judging.text.verdict_text import NamedCulprit
from gpuwatch.probe.results import RankSlot, Results, slots_by_rank
from gpuwatch.probe.verdict import Culprit, CulpritKind

MIN_GPUS = 4
"""Minimum number of GPUs for a comparison: one and three peers; with fewer, the best tenth means nothing."""
CHECKS = (
    ("matmul_flops", "matrix multiplication", 1e12, "TFLOP/s", "its clock, power limit and temperature"),
    ("copy_bps", "copy in its own memory", 1e9, "GB/s", "its memory clock and ECC errors"),
    ("h2d_bps", "copy from the host", 1e9, "GB/s", "its PCIe link, NUMA binding and host memory"),
    ("d2h_bps", "copy to the host", 1e9, "GB/s", "its PCIe link, NUMA binding and host memory"),
)
"""(field of `GpuResult`, name of the check, units per display unit, display unit, what to check if slow)."""


class Slow(Struct, frozen=True):
    """A check in which one GPU is slower than its peers."""

    slot: RankSlot
    field: str
    ratio: float
    text: str
    look: str

    @property
    def sentence(self) -> str:
        """Return the evidence with the GPU: `gpu-003 GPU 4: copy from the host at 80 % of its peers'`."""
        return f"{self.slot.node} {label(self.slot)}: {self.text}"


def slow_checks(results: Results) -> list[Slow]:
    """Return the checks in which a GPU is below 0.9 of the best tenth of MIN_GPUS or more of its model."""
    slots = slots_by_rank(results)
    found = []
    for field, what, unit, name, look in CHECKS:
        models: defaultdict[str, list[tuple[RankSlot, float]]] = defaultdict(list)
        for rank, each in results.gpus.items():
            value: float | None = getattr(each, field)
            if rank in slots and value is not None:
                models[slots[rank].device].append((slots[rank], value))
        for values in models.values():
            best = confirmed_best_tenth([value for _, value in values], [slot.node for slot, _ in values])
            for slot, value in values:
                if len(values) >= MIN_GPUS and value < OK_RATIO * best:
                    numbers = f"{digits(value / unit)} of {digits(best / unit)} {name}"
                    text = f"{what} at {percent(value / best)} of its peers' ({numbers})"
                    found.append(Slow(slot, field, value / best, text, look))
    return found


def gpu_alerts(slow: list[Slow], results: Results) -> list[NamedCulprit]:
    """Return a culprit for each GPU with a check below 0.7; one for a node if all its GPUs are."""
    of_node: defaultdict[str, dict[RankSlot, list[Slow]]] = defaultdict(dict)
    for each in slow:
        if each.ratio < BAD_RATIO:
            of_node[each.slot.node].setdefault(each.slot, []).append(each)
    checked = Counter(slot.node for slot in results.slots if slot.rank in results.gpus)
    found = []
    for node, gpus in of_node.items():
        if len(gpus) == checked[node] > 1:
            checks = [min(each, key=lambda check: check.ratio) for each in gpus.values()]
            found.append(_reported("node", node, f"{node}: all {len(gpus)} of its GPUs are", checks))
            continue
        for slot, checks in gpus.items():
            name = f"{node} {label(slot)}"
            found.append(_reported("gpu", name, f"{name} is", checks))
    return found


def _reported(kind: CulpritKind, name: str, subject: str, checks: list[Slow]) -> NamedCulprit:
    worst = min(checks, key=lambda each: each.ratio)
    evidence = tuple(f"{label(each.slot)}: {each.text}" for each in checks)
    culprit = Culprit(kind, name, worst.ratio, evidence)
    return NamedCulprit(culprit, f"{subject} slow: {worst.text}; check {worst.look}")
