"""What a node tells only when it is asked: the settings under which the ranks on it run."""

from __future__ import annotations

from gpuwatch.wire.part import Part

UNLIMITED = -1
"""Of a resource limit."""


class RankParticulars(Part, frozen=True):
    """One rank's process."""

    pid: int
    rank: int | None = None
    parent: int | None = None
    """The process that started it: a launcher, where there is one."""
    python: str | None = None
    """Its interpreter."""
    torch: str | None = None
    """By the package's metadata on its disk; nothing is imported."""
    nccl: str | None = None
    """Of the library that is mapped into it, else of the package beside its torch."""
    variables: dict[str, str] = {}
    """NCCL's, CUDA's, gloo's and Slurm's, as `agent/particulars.py` lists them."""
    memlock_bytes: int | None = None
    nofile: int | None = None


class Particulars(Part, frozen=True):
    """One node."""

    shm_total_bytes: int | None = None
    shm_used_bytes: int | None = None
    fabric_manager: bool | None = None
    """Whether NVIDIA's fabric manager runs; None: this node has no NVSwitch to manage."""
    reached: dict[str, str] = {}
    """Address that was asked for -> why it could not be connected to; empty: it could."""
    listens: dict[str, int | None] = {}
    """Port that was asked for -> pid that listens on it here, 0: somebody's; None: nobody."""
    ranks: list[RankParticulars] = []
