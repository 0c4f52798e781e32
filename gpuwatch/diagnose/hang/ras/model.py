"""What NCCL's RAS reported of a job: communicators, and the ranks that stand apart in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class RasError(ValueError):
    """An answer of RAS that cannot be read; the message states why."""


@dataclass(frozen=True)
class RasRank:
    """One rank of a communicator, as RAS knows its process."""

    rank: int
    """Within the communicator."""
    host: str | None = None
    pid: int | None = None
    gpu: int | None = None


@dataclass(frozen=True)
class Bucket:
    """Ranks that have launched equally many collectives of one kind."""

    count: int
    size: int
    peers: tuple[RasRank, ...]
    """Fewer than `size` where the text names only outliers."""


@dataclass(frozen=True)
class Communicator:
    """One communicator."""

    hash: str
    size: int | None
    silent: tuple[RasRank, ...] = ()
    """Their processes did not answer RAS."""
    dead: tuple[RasRank, ...] = ()
    """Given up by RAS."""
    left: tuple[RasRank, ...] = ()
    """Their processes answer, and know nothing of this communicator (any more)."""
    failed: tuple[tuple[RasRank, str], ...] = ()
    """With an error, in words."""
    ending: tuple[tuple[RasRank, str], ...] = ()
    """In another state than most: aborted, finalizing, still initializing."""
    launched: Mapping[str, tuple[Bucket, ...]] = field(default_factory=dict)
    """Collective -> the ranks by how many they have launched, the fewest first; only where they differ."""


@dataclass(frozen=True)
class Ras:
    """One answer."""

    node: str
    """Who was asked."""
    address: str
    version: str | None
    communicators: tuple[Communicator, ...]
    counted: int = 0
    """Ranks whose collectives the answer counts, summed over its communicators."""
    timeouts: int = 0
    """Processes that did not answer each other while it was gathered."""
    dead: tuple[RasRank, ...] = ()
    """Processes that the text reports without a communicator; their rank is -1."""
