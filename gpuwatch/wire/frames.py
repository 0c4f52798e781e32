"""The frames that an agent writes."""

from __future__ import annotations

from typing import Any, TypeAlias

from gpuwatch.wire.gpus import GpuInfo, GpuSample, Topology
from gpuwatch.wire.host import AgentCost, HostSample
from gpuwatch.wire.logs import Finding, Lines, Logs
from gpuwatch.wire.part import Frame, Notice, Severity
from gpuwatch.wire.processes import Process
from gpuwatch.wire.progress import Progress


class Hello(Frame, tag="hello", frozen=True):
    """The first frame of a connection; sent again when the inventory or a notice changes."""

    host: str
    agent: str
    python: str
    pid: int
    interval_s: float
    gpus: list[GpuInfo] = []
    gpus_expected: int | None = None
    """NVIDIA display devices on the PCI bus: more than `gpus` means that some are missing ("7 of 8")."""
    topology: Topology | None = None
    notices: list[Notice] = []
    driver: str | None = None
    cuda: str | None = None
    nvml: str | None = None
    kernel: str | None = None
    os: str | None = None
    cpu_model: str | None = None
    cpu_count: int | None = None
    memory_total_bytes: int | None = None
    boot_id: str | None = None
    addresses: list[str] = []
    """IPv4 and IPv6 addresses, without loopback, link-local ones and the bridges of containers."""
    kernel_log: str | None = None
    """Where the kernel log is read from (/dev/kmsg, journalctl), or None when it cannot be read."""


class Sample(Frame, tag="sample", frozen=True):
    """One tick."""

    gpus: list[GpuSample] = []
    host: HostSample | None = None
    agent: AgentCost | None = None


class Ranks(Frame, tag="ranks", frozen=True):
    """All processes of interest on this node; replaces the list before it."""

    processes: list[Process] = []
    truncated: int = 0
    """How many more there were than are listed."""
    partial: str | None = None
    """Why some are missing ("stuck in nvmlDeviceGetComputeRunningProcesses on GPU 3")."""


class Event(Frame, tag="event", frozen=True):
    """Something happened at a moment: an Xid, a GPU lost or back, driver trouble."""

    event: str
    """xid, sxid, gpu_lost, gpu_back, gpu_stuck, gpu_unstuck, ecc, recovery_action, agent."""
    title: str
    severity: Severity = "info"
    gpu: str | None = None
    """UUID, where one GPU is meant."""
    code: int | None = None
    pid: int | None = None
    detail: str | None = None
    remedy: str | None = None
    source: str | None = None
    """nvml, kernel or agent."""
    count: int = 1


class Reply(Frame, tag="reply", frozen=True):
    """The answer to a request."""

    id: int
    error: str | None = None
    data: dict[str, Any] | None = None


class Bye(Frame, tag="bye", frozen=True):
    """The agent leaves, and says why."""

    reason: str


AnyFrame: TypeAlias = Hello | Sample | Ranks | Event | Logs | Finding | Progress | Lines | Reply | Bye
