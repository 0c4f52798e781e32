"""Flags from the memory of ranks: unequal peaks, fragmentation, failed allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from gpuwatch.diagnose.playbook.topics import steps_of
from gpuwatch.number_text import gigabytes, plural
from gpuwatch.runs.memory.rank_memory import RankMemory, ZeroPartition

MAX_PEAK_IMBALANCE = 0.2
"""Largest (max - min) / mean of the ranks' peaks; the limit of common guides to distributed training."""
MAX_FRAGMENTATION = 0.2
"""Largest unusable share of the reserved memory; above it an allocation may fail although enough is free."""
MAX_PARTITION_DIFFERENCE = 0.01
"""Largest (max - min) / mean of one group's partitions; DeepSpeed pads them to equal sizes."""
GB = 1e9


class MemoryFlag(Struct, frozen=True):
    """A problem in the memory of one rank: code, text, value, limit and next steps."""

    code: str
    rank: int | None
    text: str
    value: float
    limit: float | None
    actions: tuple[str, ...]


class MemoryVerdict(Struct, frozen=True):
    """The problems in the memory of a job's ranks, and the imbalance of the peaks."""

    flags: tuple[MemoryFlag, ...]
    imbalance: float | None
    """(max - min) / mean of the peaks; None: fewer than two ranks report one."""


def label_of(memory: RankMemory) -> str:
    """Return `rank 3`, `rank 3 GPU 1`, or the name of the file."""
    who = f"rank {memory.rank}" if memory.rank is not None else memory.file
    return who if not memory.device else f"{who} GPU {memory.device}"


def judge_memory(ranks: Sequence[RankMemory], partitions: Sequence[ZeroPartition] = ()) -> MemoryVerdict:
    """Return the verdict on the memory of a job's ranks, and on the partitions of its optimizer state."""
    flags = [flag for each in ranks for flag in _of_one(each)]
    flags += _of_partitions(partitions)
    peaks = [each for each in ranks if each.peak is not None]
    values = [each.peak or 0 for each in peaks]
    middle = fmean(values) if len(values) > 1 else 0.0
    imbalance = (max(values) - min(values)) / middle if middle else None
    if imbalance is not None and imbalance > MAX_PEAK_IMBALANCE:
        most = max(peaks, key=lambda each: each.peak or 0)
        text = (
            f"the peaks of the ranks differ by {100 * imbalance:.0f} %: {label_of(most)} has the highest,"
            f" {gigabytes(most.peak or 0)}, the mean is {gigabytes(middle)}"
        )
        flags.insert(
            0,
            MemoryFlag(
                "memory.imbalance",
                most.rank,
                text,
                imbalance,
                MAX_PEAK_IMBALANCE,
                steps_of("memory-imbalance"),
            ),
        )
    return MemoryVerdict(tuple(flags), imbalance)


def _of_one(memory: RankMemory) -> list[MemoryFlag]:
    found = []
    who = label_of(memory)
    if memory.out_of_memory:
        request = (
            "" if memory.failed_request is None else f", the last for {gigabytes(memory.failed_request)}"
        )
        text = f"{who}: {plural(memory.out_of_memory, 'request')} for memory failed{request}"
        found.append(
            MemoryFlag("memory.out_of_memory", memory.rank, text, memory.out_of_memory, 0, steps_of("oom"))
        )
    if memory.is_incomplete:
        found.append(MemoryFlag("memory.incomplete", memory.rank, _missing_text(memory), 1, None, ()))
    share = memory.fragmentation
    if share is not None and share > MAX_FRAGMENTATION:
        text = (
            f"{who}: {100 * share:.0f} % of the reserved memory is fragmented"
            f" ({gigabytes(memory.unusable or 0)} free inside of segments in use)"
        )
        found.append(
            MemoryFlag(
                "memory.fragmented", memory.rank, text, share, MAX_FRAGMENTATION, steps_of("fragmentation")
            )
        )
    elif memory.retries:
        text = f"{who}: the allocator emptied its cache {memory.retries} times to serve a request"
        found.append(
            MemoryFlag("memory.retries", memory.rank, text, memory.retries, 0, steps_of("fragmentation"))
        )
    return found


def _of_partitions(partitions: Sequence[ZeroPartition]) -> list[MemoryFlag]:
    """Return a flag if ranks state different numbers of partitions, or partitions of unequal size."""
    if len({each.rank for each in partitions}) < 2:
        return []
    usual, _ = Counter(each.counts for each in partitions).most_common(1)[0]
    odd = next((each for each in partitions if each.counts != usual), None)
    if odd is not None:
        text = (
            f"rank {odd.rank} splits its optimizer state into {list(odd.counts)} partitions, others into"
            f" {list(usual)}: they do not run the same model, or not in one group"
        )
        return [MemoryFlag("memory.partition", odd.rank, text, 1, None, steps_of("zero-partition"))]
    found = []
    for group, of_ranks in enumerate(zip(*(each.elements for each in partitions), strict=False)):
        middle = fmean(of_ranks)
        apart = (max(of_ranks) - min(of_ranks)) / middle if middle else 0.0
        if apart > MAX_PARTITION_DIFFERENCE:
            most = max(partitions, key=lambda each, group=group: each.elements[group])  # type: ignore[misc]  # a default of a lambda has no type
            text = (
                f"the optimizer state of group {group} is unevenly split: rank {most.rank} holds"
                f" {most.elements[group]:,} parameters, the mean is {middle:,.0f}"
            )
            limit = MAX_PARTITION_DIFFERENCE
            found.append(
                MemoryFlag("memory.partition", most.rank, text, apart, limit, steps_of("zero-partition"))
            )
    return found


def _missing_text(memory: RankMemory) -> str:
    """Return text on what an incomplete memory report lacks; a missing value never counts as healthy."""
    sizes = {"allocated": memory.allocated, "reserved": memory.reserved, "peak": memory.peak}
    missing = [name for name, size in sizes.items() if size is None] or ["fragmentation"]
    what = (
        "the memory_summary() table is cut off" if memory.source == "memory_summary" else "no size is stated"
    )
    file = "" if memory.rank is None else f" ({memory.file})"
    return f"{label_of(memory)}: {what}; unknown: {', '.join(missing)}{file}"
