"""NCCL RAS's report on a job: communicators, and the ranks that deviate in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field


class RasError(ValueError):
    """An answer of RAS that cannot be read; the message states why."""


class RasRank(Struct, frozen=True):
    """One rank of a communicator as RAS reports it: number, host, pid and GPU; None: unknown."""

    rank: int
    """Within the communicator."""
    host: str | None = None
    pid: int | None = None
    gpu: int | None = None


class Bucket(Struct, frozen=True):
    """Ranks that have launched the same number of collectives of one kind."""

    count: int
    size: int
    peers: tuple[RasRank, ...]
    """The ranks of the bucket; fewer than `size` where the text names only outliers."""


class Communicator(Struct, frozen=True):
    """One NCCL communicator in a RAS answer: its size, and its dead, silent, failed or lagging ranks."""

    hash: str
    size: int | None
    silent: tuple[RasRank, ...] = ()
    """Ranks whose process did not answer RAS."""
    dead: tuple[RasRank, ...] = ()
    """Ranks that RAS declared dead."""
    left: tuple[RasRank, ...] = ()
    """Ranks whose process answers but no longer knows this communicator."""
    failed: tuple[tuple[RasRank, str], ...] = ()
    """Ranks that report an error, each with its text."""
    ending: tuple[tuple[RasRank, str], ...] = ()
    """Ranks whose state differs from the majority, each with the state: aborted, finalizing, initializing."""
    launched: Mapping[str, tuple[Bucket, ...]] = field(default_factory=dict)
    """Collective -> ranks by launch count, lowest first; only where counts differ."""


class Ras(Struct, frozen=True):
    """One answer of NCCL RAS: the node, the NCCL version, the communicators and the dead processes."""

    node: str
    """The node that answered."""
    address: str
    version: str | None
    communicators: tuple[Communicator, ...]
    counted: int = 0
    """Ranks whose collectives the answer counts, summed over its communicators."""
    timeouts: int = 0
    """Processes that did not answer each other while RAS gathered the report."""
    dead: tuple[RasRank, ...] = ()
    """Dead processes that the text lists without a communicator; the rank is given as -1."""
    jobs: frozenset[str | None] = frozenset()
    """Jobs of the ranks that use the address; empty: unknown."""

    @property
    def reported(self) -> Iterator[RasRank]:
        """Yield the ranks that deviate: dead, silent, left, failed, ending, or listed with a launch count."""
        yield from self.dead
        for each in self.communicators:
            yield from (*each.silent, *each.dead, *each.left)
            yield from (peer for peer, _ in (*each.failed, *each.ending))
            yield from (peer for buckets in each.launched.values() for one in buckets for peer in one.peers)
