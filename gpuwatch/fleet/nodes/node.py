"""One node and its GPUs: reported values with their ages, without judgement."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from gpuwatch.fleet.nodes.history import GpuHistory, HostHistory
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.hosts.slurm.scheduler_facts import NodeStanding
from gpuwatch.link.stream.inbox import ClockReading, LinkStatus
from gpuwatch.wire import (
    AgentCost,
    Event,
    GpuFast,
    GpuInfo,
    GpuMedium,
    GpuSlow,
    GpuState,
    Hello,
    HostSample,
    LogFile,
    Notice,
    Process,
    SharedFolder,
)

NodeState: TypeAlias = Literal["connecting", "live", "stale", "lost"]

STALE_TICKS = 3.0
"""A node whose newest frame is older than this many ticks is stale (DESIGN: shown within 3 ticks)."""
MEDIUM_FRESH_S, SLOW_FRESH_S = 15.0, 90.0
"""Seconds for three rounds of the 5 s tier and of the 30 s tier."""
KEPT_EVENTS = 200
LEFT_S = 10.0
"""Seconds for which a rank that is no longer listed is kept in `Node.left`; it has a place by then."""
MAX_LEFT = 256
STARTING = "nvml_starting"
"""The notice of a driver that has not answered yet: its number of GPUs is unknown."""


class Tiers(NamedTuple):
    """The values of a GPU that are recent enough to describe the present, by tier; None: there are none."""

    fast: GpuFast | None = None
    medium: GpuMedium | None = None
    slow: GpuSlow | None = None


@dataclass
class Gpu:
    """One GPU, keyed by UUID. Every tier has the time (our monotonic clock) when it was read."""

    info: GpuInfo
    node: str
    state: GpuState = "ok"
    reason: str | None = None
    stuck_in: str | None = None
    stuck_at: float | None = None
    """When the driver call that has not returned yet was entered."""
    fast: GpuFast | None = None
    fast_at: float | None = None
    first_fast_at: float | None = None
    medium: GpuMedium | None = None
    medium_at: float | None = None
    slow: GpuSlow | None = None
    slow_at: float | None = None
    missing: dict[str, str] = field(default_factory=dict)
    last_ranks: tuple[int, ...] = ()
    """The ranks of the processes that last had the GPU open."""
    last_ranks_at: float | None = None
    history: GpuHistory = field(default_factory=GpuHistory)
    version: int = 0

    @property
    def answers(self) -> bool:
        """Return True if the GPU has reported values at least once and is not lost."""
        return self.state != "lost" and self.fast_at is not None

    def age(self, now: float) -> float | None:
        """Return the seconds since the GPU's fast values were read; None: never."""
        return None if self.fast_at is None else max(0.0, now - self.fast_at)

    def of_late(self, interval_s: float, now: float) -> Tiers:
        """Return a GPU's tiers of values that are at most three rounds old, or three ticks if longer.

        `interval_s`: seconds of a tick.
        """
        ticks = STALE_TICKS * interval_s
        medium_since, slow_since = now - max(MEDIUM_FRESH_S, ticks), now - max(SLOW_FRESH_S, ticks)
        return Tiers(
            self.fast_of_late(interval_s, now),
            None if self.medium_at is None or self.medium_at < medium_since else self.medium,
            None if self.slow_at is None or self.slow_at < slow_since else self.slow,
        )

    def fast_of_late(self, interval_s: float, now: float) -> GpuFast | None:
        """Return a GPU's fast tier if it is at most 3 ticks of `interval_s` old, else None."""
        at = self.fast_at
        return None if at is None or now - at > STALE_TICKS * interval_s else self.fast

    def stuck_s(self, now: float) -> float | None:
        """Return the seconds that the stuck driver call has lasted; None: none is stuck, or unknown."""
        return None if self.stuck_at is None else max(0.0, now - self.stuck_at)


@dataclass
class Node:
    """One node: its link, the latest reports of its agent, and its GPUs."""

    spec: NodeSpec
    interval_s: float
    link: LinkStatus = field(default_factory=lambda: LinkStatus("connecting"))
    link_at: float | None = None
    """When the status of the node's link last changed (our monotonic clock)."""
    received_at: float | None = None
    """When the node's last frame of any kind was received (our monotonic clock)."""
    hello: Hello | None = None
    gpus: dict[str, Gpu] = field(default_factory=dict)
    """UUID -> GPU; a GPU that disappears stays, marked as lost."""
    host: HostSample | None = None
    host_at: float | None = None
    events_held: int = 0
    """Number of Xids that the agent has not reported yet because it waits for the kernel's line."""
    disks_at: float | None = None
    """When `host.disks` was read, which is less often than the rest of `host`."""
    host_history: HostHistory = field(default_factory=HostHistory)
    cost: AgentCost | None = None
    processes: list[Process] = field(default_factory=list)
    processes_at: float | None = None
    left: list[tuple[float, Process]] = field(default_factory=list)
    """When ranks were first missing from the list of processes (our monotonic clock), of the last LEFT_S."""
    last_ranks: dict[tuple[str | None, int], float] = field(default_factory=dict)
    """Of a node without GPUs: (job, rank) of the jobs that ran there last -> when it was last listed."""
    processes_partial: str | None = None
    crowded_ranks: dict[int, int] = field(default_factory=dict)
    """Rank -> number of the node's processes that claim the rank for one job, if too many to distinguish."""
    logs: list[LogFile] = field(default_factory=list)
    logs_truncated: int = 0
    """Number of log files that the agent does not follow because there are too many."""
    logs_complete: bool = False
    """True if the connected agent has found every expected log file."""
    log_misses: dict[str, str] = field(default_factory=dict)
    """Value of the `--log` option -> why it matches no file here."""
    shared_folders: list[SharedFolder] = field(default_factory=list)
    """Folders on network file systems that may hold the logs of ended jobs."""
    search_cut: bool = False
    """True if a limit stopped the agent's search for ended jobs early."""
    logs_at: float | None = None
    logs_listed_at: float = 0.0
    """When the agent made the newest list of log files (unix seconds on the node's clock)."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    clock: ClockReading | None = None
    refused: int = 0
    refused_reason: str = ""
    refused_at: float | None = None
    """When the newest refused frame was received."""
    dropped_at: float | None = None
    """When the agent last reported that it had dropped more frames."""
    bye: str | None = None
    version: int = 0
    standing: NodeStanding | None = None
    """What the scheduler reports about the node; None: no scheduler, or the node is unknown to it."""
    own_host: str | None = None
    """The host name that the node's agent reports, if no other node has it; None: unknown."""
    taken_host: str | None = None
    """Another node of the plan whose name this node's agent reports as its own."""
    rivals: dict[int, str] = field(default_factory=dict)
    """Rank that a process of the node claims -> another node that claims this rank of the same job."""

    agent_since: float = 0.0
    """When the link to the current agent became live (our monotonic clock)."""

    @property
    def name(self) -> str:
        """Return the node's name on the screen."""
        return self.spec.name

    def age(self, now: float) -> float | None:
        """Return the seconds since any frame of the node was received; None: never."""
        return None if self.received_at is None else max(0.0, now - self.received_at)

    def state(self, now: float) -> NodeState:
        """Return the state at `now` (our monotonic clock), by the link and the age of the last frame.

        `connecting` before the first frame, `lost` until a reconnect succeeds, `stale` if the last
        frame is older than STALE_TICKS intervals, else `live`.
        """
        if self.link.phase == "lost":
            return "lost"
        if self.link.phase == "connecting":
            tried = self.hello is not None or bool(self.link.reason)
            return "lost" if tried else "connecting"  # lost until it is back, not by turns
        age = self.age(now)
        if age is None:
            return "connecting"
        return "stale" if age > STALE_TICKS * self.interval_s else "live"

    @property
    def driver_starting(self) -> Notice | None:
        """Return the notice that a node's GPU driver is still initialising; None if it has finished.

        None also if no agent has connected.
        """
        notices = self.hello.notices if self.hello is not None else ()
        return next((notice for notice in notices if notice.code == STARTING), None)

    def agent_s(self, now: float) -> float:
        """Return the seconds since the link to the current agent became live, at `now` (our monotonic clock).

        Meaningless before it first did.
        """
        return max(0.0, now - self.agent_since)

    @property
    def offset_s(self) -> float:
        """Return the node's clock minus ours in seconds; 0.0 while unknown, or if smaller than its error.

        A difference below the error changes with every better reading, and with it times of log lines.
        """
        clock = self.clock
        return 0.0 if clock is None or abs(clock.offset_s) <= clock.error_s else clock.offset_s

    def own_time(self, now: float) -> float | None:
        """Return the time on the node's clock (unix seconds), by its newest host sample; None: unknown."""
        if self.host is None or self.host_at is None:
            return None
        return self.host.t + (now - self.host_at)

    def silent_s(self, file: LogFile, wall: float) -> float | None:
        """Return the seconds since this log file of the node last grew; None: unknown.

        `wall`: unix seconds now.
        """
        return None if file.grown_at is None else max(0.0, wall - (file.grown_at - self.offset_s))

    @property
    def ranks_of_logs(self) -> set[int]:
        """Return the ranks of a node's processes and log files."""
        ranks = {each.rank for each in self.processes if each.rank is not None}
        return ranks.union(*(file.ranks for file in self.logs))

    def take_processes(self, processes: list[Process]) -> None:
        """Replace the list of processes by one that was received at `processes_at`, and update `left`."""
        now, pids = self.processes_at or 0.0, {each.pid for each in processes}
        kept = [each for each in self.left if now - each[0] < LEFT_S]
        gone = [(now, each) for each in self.processes if each.rank is not None and each.pid not in pids]
        self.left, self.processes = [*kept, *gone][-MAX_LEFT:], processes

    def follows(self, path: str) -> bool:
        """Return True if the node's agent follows the log file at `path` now."""
        followed = any(file.path == path and file.state == "following" for file in self.logs)
        return followed and self.link.phase == "live"

    def gpu_list(self) -> list[Gpu]:
        """Return the node's GPUs by index (as the agent last numbered them), lost ones at their old index."""
        return sorted(self.gpus.values(), key=lambda gpu: (gpu.info.index, gpu.info.uuid))

    def gpus_expected(self) -> int:
        """Return how many GPUs the node should have: the most of PCI bus, hosts file and earlier lists."""
        on_bus = self.hello.gpus_expected if self.hello and self.hello.gpus_expected else 0
        return max(on_bus, self.spec.slots or 0, len(self.gpus))

    def gpus_present(self) -> int:
        """Return the number of GPUs that have answered and are not lost.

        A stuck GPU that answered before counts.
        """
        return sum(gpu.answers for gpu in self.gpus.values())
