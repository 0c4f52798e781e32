"""Processes and the ranks they carry."""

from __future__ import annotations

from gpuwatch.wire.part import Part


class ProcessGpu(Part, frozen=True):
    """A process's hold on one GPU."""

    uuid: str
    memory_bytes: int | None = None
    sm_pct: float | None = None


class Process(Part, frozen=True):
    """A process that holds a GPU or carries a rank."""

    pid: int
    name: str
    start: float | None = None
    user: str | None = None
    command: str | None = None
    state: str | None = None
    """R, S, D, Z, T: as /proc says it."""
    gpus: list[ProcessGpu] = []
    cpu_pct: float | None = None
    rss_bytes: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    master: str | None = None
    """`addr:port` of the rendezvous."""
    job: str | None = None
    """As an agent tells it: Slurm job id, the launcher's run id, or PMIx's namespace. In a fleet: what
    `fleet.jobs` calls its job."""
    launcher: int | None = None
    """The nearest process above a rank that is no rank itself: what started it."""
    container: str | None = None
    variables: dict[str, str] = {}
    """Only whitelisted environment variables."""
    logs: list[str] = []
    """Regular files behind its write-only descriptors."""
