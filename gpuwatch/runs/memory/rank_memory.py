"""The memory of one rank's GPU, as a snapshot or a log states it; sizes in bytes, None: not stated."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MemoryHolder:
    """Allocations that were made at one place of the program."""

    where: str
    """`train.py:42 forward`, or a category of torch's profiler."""
    size: int
    blocks: int


@dataclass
class RankMemory:
    """The figures of one rank; of a log the last, and the peak of all."""

    file: str
    source: str
    """`snapshot`, `memory_summary`, `deepspeed`, `megatron` or `table`."""
    rank: int | None = None
    device: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    peak: int | None = None
    """Most allocated."""
    peak_reserved: int | None = None
    requested: int | None = None
    """Of the allocated memory what the program asked for: the rest is rounding."""
    unusable: int | None = None
    """Free memory in segments that are in use: only requests that fit into it can use it."""
    largest_free: int | None = None
    out_of_memory: int = 0
    failed_request: int | None = None
    """Bytes of the last request that failed."""
    retries: int | None = None
    """Times that the allocator emptied its cache to serve a request (`cudaMalloc retries`)."""
    holders: list[MemoryHolder] = field(default_factory=list)
    """Of the peak, the largest first."""
    peak_at: str | None = None
    """The line's message, or the place in the snapshot's history."""
    is_whole_history: bool = True
    """False: the snapshot's history begins later than its allocations: the peak may be older."""
    host_used: int | None = None
    """Of the node's memory, as DeepSpeed logs it."""
    zero: list[str] = field(default_factory=list)
    """What the log states of ZeRO: stage, partitions, optimizer states, offload."""

    @property
    def is_incomplete(self) -> bool:
        """Whether the report breaks off before its sizes, or states none."""
        if self.source == "memory_summary":
            return self.peak is None or self.reserved is None or self.unusable is None
        sizes = (self.allocated, self.reserved, self.peak, self.peak_reserved)
        return all(size is None for size in sizes)

    @property
    def fragmentation(self) -> float | None:
        """Unusable memory as a share of what is reserved."""
        if self.unusable is None or not self.reserved:
            return None
        return self.unusable / self.reserved
