"""Compares traces of one training at several scales: where a step takes longer on more ranks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from msgspec import Struct

from gpuwatch.runs.traces.rank_profile import RankProfile

PARTS = ("compute", "communication", "memory_copy", "other", "idle")
"""Parts of a step, which add up to it; communication is the part that no computation hides."""


class ScaleTimes(Struct, frozen=True):
    """The times of a step at one scale: means over its traced ranks, in milliseconds."""

    name: str
    ranks: int
    """The world size; the number of traced ranks if no trace states it."""
    traced_ranks: int
    steps: int
    """Steps of the rank that has the most; 0: no trace has steps, and the times are those of whole traces."""
    step_ms: float
    parts_ms: dict[str, float]
    """By the names of `PARTS`."""
    communication_busy_ms: float
    """Time of all communication (ms), hidden by computation or not."""


class ScaleGrowth(Struct, frozen=True):
    """The part of a step that grows most from the smallest scale to another."""

    ranks: int
    baseline_ranks: int
    step_ms: float
    """Milliseconds by which a step takes longer than at the smallest scale."""
    part: str
    part_ms: float
    """Milliseconds by which this part takes longer."""


def scale_times(name: str, profiles: Sequence[RankProfile]) -> ScaleTimes | None:
    """Return the times of a step over the ranks of one scale; None if no trace has operators.

    If some ranks have GPU events, only those count.
    """
    traced = [each for each in profiles if each.has_operators]
    traced = [each for each in traced if each.breakdown.basis == "gpu"] or traced
    if not traced:
        return None
    counts = [max(1, len(each.steps_ms)) for each in traced]

    def per_step(what: str) -> float:
        totals = (float(getattr(each.breakdown, f"{what}_ms")) for each in traced)
        return mean(total / count for total, count in zip(totals, counts, strict=True))

    sizes = [each.trace.world_size for each in traced if each.trace.world_size]
    return ScaleTimes(
        name,
        max(sizes, default=len(traced)),
        len(traced),
        max(len(each.steps_ms) for each in traced),
        per_step("span"),
        {part: per_step(part) for part in PARTS},
        per_step("communication_busy"),
    )


def growth(scales: Sequence[ScaleTimes]) -> list[ScaleGrowth]:
    """Return, for each scale after the smallest, what makes its step longer; none if it is not longer.

    Empty if the traces of a scale have no steps.
    """
    if not scales or any(not each.steps for each in scales):
        return []
    smallest, *others = sorted(scales, key=lambda each: each.ranks)
    found = []
    for each in others:
        longer = {part: each.parts_ms[part] - smallest.parts_ms[part] for part in PARTS}
        part = max(longer, key=lambda name: longer[name])
        if each.step_ms > smallest.step_ms and longer[part] > 0:
            step_ms = each.step_ms - smallest.step_ms
            found.append(ScaleGrowth(each.ranks, smallest.ranks, step_ms, part, longer[part]))
    return found
