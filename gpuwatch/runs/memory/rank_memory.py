"""The memory of one rank's GPU from a snapshot or log; sizes in bytes, None: unknown."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct


class MemoryHolder(Struct, frozen=True):
    """Memory that was allocated at one place of the program."""

    where: str
    """`train.py:42 forward`, or a category of torch's profiler."""
    size: int
    blocks: int


class ZeroPartition(Struct, frozen=True):
    """The partitions of one rank's optimizer state (ZeRO), as DeepSpeed logs them."""

    file: str
    rank: int
    counts: tuple[int, ...]
    """Number of partitions of each parameter group."""
    elements: tuple[int, ...]
    """Number of parameters of each group whose state this rank holds, with padding."""


@dataclass
class RankMemory:
    """The GPU memory of one rank; from a log, the last values and the maximum of the peaks."""

    file: str
    source: str
    """Where the values are from: `snapshot`, `memory_summary`, `deepspeed`, `megatron` or `table`."""
    rank: int | None = None
    device: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    peak: int | None = None
    """Highest allocation."""
    peak_reserved: int | None = None
    requested: int | None = None
    """Bytes of the allocated memory that the program requested; the rest is rounding."""
    unusable: int | None = None
    """Free memory in partially used segments; only requests that fit into a gap can use it."""
    largest_free: int | None = None
    out_of_memory: int = 0
    failed_request: int | None = None
    """Bytes of the last request that failed."""
    retries: int | None = None
    """How often the allocator emptied its cache to serve a request (`cudaMalloc retries`)."""
    holders: list[MemoryHolder] = field(default_factory=list)
    """Holders of the peak, largest first."""
    peak_at: str | None = None
    """The message of the log line, or the place in the snapshot's history."""
    is_whole_history: bool = True
    """False: the snapshot's history begins after its first allocations, so the peak may be earlier."""
    host_used: int | None = None
    """Used memory of the node in bytes, as DeepSpeed logs it."""
    zero: list[str] = field(default_factory=list)
    """ZeRO settings in the log: stage, partitions, optimizer states, offload."""

    @property
    def is_incomplete(self) -> bool:
        """True if the memory report ends before its sizes, or has no sizes."""
        if self.source == "memory_summary":
            return self.peak is None or self.reserved is None or self.unusable is None
        sizes = (self.allocated, self.reserved, self.peak, self.peak_reserved)
        return all(size is None for size in sizes)

    @property
    def fragmentation(self) -> float | None:
        """The unusable share of the reserved memory, 0 to 1; None: unknown."""
        if self.unusable is None or not self.reserved:
            return None
        return self.unusable / self.reserved
