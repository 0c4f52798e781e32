"""Merges several symptoms of one fault into one culprit: a GPU with a bad PCIe link is slow in all tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from gpuwatch.probe.judging.links.attribution import label, nic
from gpuwatch.probe.judging.text.verdict_text import NamedCulprit
from gpuwatch.probe.results import RankSlot


def one_each(found: Iterable[NamedCulprit], slots: Iterable[RankSlot]) -> list[NamedCulprit]:
    """Return each culprit once with all its evidence.

    A NIC whose GPU is a culprit becomes evidence of the GPU.

    Args:
        found: Culprits, the most distinctive first.
        slots: The slots of all ranks, which state the NIC of each GPU.
    """
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for slot in slots:
        owners[f"{slot.node} {nic(slot)}"].append(f"{slot.node} {label(slot)}")
    every = list(found)
    gpus = {each.culprit.name for each in every if each.culprit.kind == "gpu"}
    kept: dict[str, NamedCulprit] = {}
    for each in sorted(every, key=lambda each: each.culprit.kind == "nic"):
        name = each.culprit.name
        if each.culprit.kind == "nic" and len(owners[name]) == 1 and owners[name][0] in gpus:
            name = owners[name][0]
        kept[name] = _joined(kept[name], each) if name in kept else each
    order = {each.culprit.name: at for at, each in reversed(list(enumerate(every)))}
    return sorted(kept.values(), key=lambda each: order[each.culprit.name])


def _joined(first: NamedCulprit, other: NamedCulprit) -> NamedCulprit:
    evidence = tuple(dict.fromkeys((*first.culprit.evidence, *other.culprit.evidence)))
    ratios = [each.culprit.ratio for each in (first, other) if each.culprit.ratio is not None]
    return replace(first, culprit=replace(first.culprit, ratio=min(ratios, default=None), evidence=evidence))
