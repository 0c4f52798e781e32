"""Checks what must be equal on all ranks (parameters, gradients) and what must differ (samples).

All checks are collectives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..base.ranks import all_gather, loaded_torch

MAX_NAMED_SAMPLES = 100
CHUNK_NUMBERS = 1 << 22
"""Maximum count of numbers of a tensor that are hashed at a time: 32 MB of memory."""


@dataclass(frozen=True)
class RankDifference:
    """A tensor that is not the same on all ranks."""

    name: str
    ranks: list[int]
    """Ranks whose value differs from the most frequent one; without a most frequent one, all but rank 0."""


@dataclass(frozen=True)
class ShardingReport:
    """The samples that the ranks have read, compared by id."""

    counts: list[int]
    """Number of samples of each rank, by rank; repetitions are counted."""
    distinct: int
    """Number of different samples of all ranks together."""
    overlaps: dict[str, list[int]]
    """Samples that several ranks have read -> those ranks; at most 100 are listed."""
    overlap_count: int

    @property
    def is_disjoint(self) -> bool:
        """True if no sample is on two ranks.

        A sampler that pads the last batch repeats up to world size - 1 samples.
        """
        return self.overlap_count == 0


def tensor_checksum(tensor: Any) -> int:
    """Return a checksum of a tensor's bits, computed on its device: equal bits, equal sums, also for NaN."""
    torch = loaded_torch()
    flat = tensor.detach().contiguous().view(-1)
    flat = flat.to(torch.uint8) if flat.dtype == torch.bool else flat.view(torch.uint8)
    total = 0
    for start in range(0, flat.numel(), CHUNK_NUMBERS):
        part = flat[start : start + CHUNK_NUMBERS].to(torch.int64)
        places = torch.arange(1, part.numel() + 1, device=part.device, dtype=torch.int64)
        weights = places * 2654435761 % 4294967291
        total = (total * 1000003 + int((part * weights).sum()) + int(part.sum())) % (1 << 61)
    return total


def differences_across_ranks(
    model: Any, kind: Literal["parameters", "gradients"] = "parameters"
) -> list[RankDifference]:
    """Return parameters or gradients whose bits are not equal on all ranks, in the model's order.

    Replicas (DDP) must be equal after a step; sharded ones (FSDP, ZeRO-3, tensor parallel) always differ.
    """
    tensors = ((name, each if kind == "parameters" else each.grad) for name, each in model.named_parameters())
    own = {name: None if each is None else tensor_checksum(each) for name, each in tensors}
    return different_sums(all_gather(own))


def different_sums(by_rank: list[dict[str, int | None]]) -> list[RankDifference]:
    """Return the names whose sums differ, with the ranks that differ from the most frequent sum.

    On a tie, they are the ranks that differ from rank 0.
    """
    found = []
    names = list(dict.fromkeys(name for sums in by_rank for name in sums))
    for name in names:
        sums = [each.get(name, "missing") for each in by_rank]
        counts = Counter(sums).most_common(2)
        if len(counts) > 1:
            usual = sums[0] if counts[0][1] == counts[1][1] else counts[0][0]
            found.append(RankDifference(name, [rank for rank, value in enumerate(sums) if value != usual]))
    return found


def check_sharding(sample_ids: Iterable[Any]) -> ShardingReport:
    """Return a report of which ranks have read which samples (`sample_ids`: those of this rank).

    A collective: every rank calls it. At most `MAX_NAMED_SAMPLES` samples are named.
    """
    by_rank = all_gather([str(each) for each in sample_ids])
    readers: dict[str, set[int]] = defaultdict(set)
    for rank, ids in enumerate(by_rank):
        for each in ids:
            readers[each].add(rank)
    shared = [name for name, ranks in readers.items() if len(ranks) > 1]
    overlaps = {name: sorted(readers[name]) for name in shared[:MAX_NAMED_SAMPLES]}
    return ShardingReport([len(ids) for ids in by_rank], len(readers), overlaps, len(shared))
