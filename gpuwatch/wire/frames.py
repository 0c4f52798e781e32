"""The frames that an agent writes."""

from __future__ import annotations

from typing import Any, TypeAlias

from gpuwatch.wire.base import Frame, Notice, Severity
from gpuwatch.wire.gpus import GpuInfo, GpuSample, Topology
from gpuwatch.wire.host import AgentCost, HostSample
from gpuwatch.wire.limits import Count, Few, Line, Many, Moment, Name, Real, Text, Whole
from gpuwatch.wire.logs import Finding, Lines, Logs
from gpuwatch.wire.processes import Process
from gpuwatch.wire.progress import Progress

NO_PYTHON = "none"
"""`Hello.python` of a node that is watched through nvidia-smi alone."""
NOT_RECORDED = "not in this recording"
"""The error of an answer where a recording stands for the node, and the node was not asked then."""


class Hello(Frame, tag="hello", frozen=True):
    """The first frame of a connection; sent again when the inventory or a notice changes."""

    host: Name
    agent: Name
    python: Name
    pid: Whole
    interval_s: Real
    gpus: Few[GpuInfo] = []
    gpus_expected: Whole | None = None
    """NVIDIA display devices on the PCI bus: more than `gpus` means that some are missing ("7 of 8")."""
    topology: Topology | None = None
    notices: Few[Notice] = []
    driver: Name | None = None
    cuda: Name | None = None
    nvml: Name | None = None
    kernel: Name | None = None
    os: Name | None = None
    cpu_model: Name | None = None
    cpu_count: Whole | None = None
    memory_total_bytes: Whole | None = None
    boot_id: Name | None = None
    booted_at: Moment | None = None
    """When its kernel started (node's clock)."""
    addresses: Few[Name] = []
    """IPv4 and IPv6 addresses, without loopback, link-local ones and the bridges of containers."""
    kernel_log: Name | None = None
    """Where the kernel log is read from (/dev/kmsg, journalctl), or None when it cannot be read."""


class Sample(Frame, tag="sample", frozen=True):
    """One tick."""

    gpus: Few[GpuSample] = []
    host: HostSample | None = None
    agent: AgentCost | None = None
    events_held: Count = 0
    """Xids that are known and wait for a moment for the kernel's line; they come with the next ticks."""


class Ranks(Frame, tag="ranks", frozen=True):
    """All processes of interest on this node; replaces the list before it."""

    processes: Many[Process] = []
    truncated: Count = 0
    """How many more there were than are listed."""
    partial: Name | None = None
    """Why some are missing ("stuck in nvmlDeviceGetComputeRunningProcesses on GPU 3")."""


class Event(Frame, tag="event", frozen=True):
    """Something happened at a moment: an Xid, a GPU lost or back, driver trouble."""

    event: Name
    """xid, sxid, gpu_lost, gpu_back, gpu_stuck, gpu_unstuck, ecc, recovery_action, agent, reboot,
    rank_ended (`code`: as `Process.exit_status`)."""
    title: Name
    severity: Severity = "info"
    gpu: Name | None = None
    """UUID, where one GPU is meant."""
    code: Whole | None = None
    pid: Whole | None = None
    detail: Line | None = None
    remedy: Name | None = None
    source: Name | None = None
    """nvml, kernel or agent."""
    count: Count = 1


class Reply(Frame, tag="reply", frozen=True):
    """The answer to a request."""

    id: Whole
    error: Text | None = None
    data: dict[str, Any] | None = None


class Bye(Frame, tag="bye", frozen=True):
    """The agent leaves, and states why."""

    reason: Text


AnyFrame: TypeAlias = Hello | Sample | Ranks | Event | Logs | Finding | Progress | Lines | Reply | Bye
