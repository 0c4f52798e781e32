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
"""`Hello.python` of a node that is watched through nvidia-smi only."""
NOT_RECORDED = "not in this recording"
"""The error of an answer during a replay, if the node was not queried in the recording."""


class Hello(Frame, tag="hello", frozen=True):
    """The first frame of a connection; sent again when the inventory or a notice changes."""

    host: Name
    agent: Name
    python: Name
    pid: Whole
    interval_s: Real
    gpus: Few[GpuInfo] = []
    gpus_expected: Whole | None = None
    """Number of NVIDIA display devices on the PCI bus.

    More than `gpus` means that some are missing ("7 of 8").
    """
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
    """IPv4 and IPv6 addresses, without loopback, link-local ones and container bridges."""
    kernel_log: Name | None = None
    """The source of the kernel log (/dev/kmsg, journalctl), or None if it cannot be read."""


class Sample(Frame, tag="sample", frozen=True):
    """The measured values of one tick: GPUs, host, and the agent's own cost."""

    gpus: Few[GpuSample] = []
    host: HostSample | None = None
    agent: AgentCost | None = None
    events_held: Count = 0
    """Number of known Xids that wait for the kernel's line; they are sent with the next ticks."""


class Ranks(Frame, tag="ranks", frozen=True):
    """All processes of this node that use a GPU or are ranks; replaces the previous list."""

    processes: Many[Process] = []
    truncated: Count = 0
    """Number of processes that are not listed."""
    partial: Name | None = None
    """Why some are missing ("stuck in nvmlDeviceGetComputeRunningProcesses on GPU 3")."""

    @property
    def incomplete(self) -> str | None:
        """Return why the list is not complete; None: it is."""
        if self.partial is not None or not self.truncated:
            return self.partial
        return f"{self.truncated} more are not listed"


class Event(Frame, tag="event", frozen=True):
    """An event at one moment: an Xid, a GPU lost or back, a driver problem."""

    event: Name
    """xid, sxid, gpu_lost, gpu_back, gpu_stuck, gpu_unstuck, ecc, recovery_action, agent, reboot,
    rank_ended and launcher_ended (`code`: as `Process.exit_status`)."""
    title: Name
    severity: Severity = "info"
    gpu: Name | None = None
    """UUID, if the event is about one GPU."""
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
    """The last frame of an agent that exits, with the reason."""

    reason: Text


AnyFrame: TypeAlias = Hello | Sample | Ranks | Event | Logs | Finding | Progress | Lines | Reply | Bye
