"""Processes, their ranks, and the settings of both that a node reports only on request."""

from __future__ import annotations

from typing import Literal

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Few, Many, Moment, Name, Rank, Real, Table, Text, Whole, WorldSize

LOOPBACK = ("localhost", "127.", "[::1]", "::1")
"""Prefixes of a rendezvous address on the loopback interface."""

LOCALHOST = ("localhost", "localhost.localdomain", "127.0.0.1", "::1")
"""Host names that identify no node: torchrun --standalone prints `localhost` in its failure table."""


class ProcessGpu(FramePart, frozen=True):
    """A process's use of one GPU."""

    uuid: Name
    memory_bytes: Whole | None = None
    sm_pct: Real | None = None


class Process(FramePart, frozen=True):
    """A process that uses a GPU or is a rank."""

    pid: Whole
    name: Name
    start: Moment | None = None
    user: Name | None = None
    command: Text | None = None
    state: Name | None = None
    """R, S, D, Z, T: the state in /proc."""
    exit_status: Whole | None = None
    """For a process in state Z: its exit code, or minus the signal that ended it; None also for 0."""
    gpus: Few[ProcessGpu] = []
    cpu_pct: Real | None = None
    children_cpu_pct: Real | None = None
    """Percent of one core that the processes started by a rank use; None: they use none."""
    children: Few[Whole] = []
    """Pids of the newest processes that a rank has started."""
    rss_bytes: Whole | None = None
    rank: Rank | None = None
    rank_source: Literal["path", "command", "order", "log"] | None = None
    """For a rank that its program numbers itself, the source of its number.

    The path of its log, an argument, a line of its log (Ray), or only inferred: from the order in which the
    processes were started, and if each was started by itself, from the GPU that it may use or a number of
    its log. None: its environment.
    """
    local_rank: Rank | None = None
    world_size: WorldSize | None = None
    master: Name | None = None
    """`addr:port` of the rendezvous."""
    job: Name | None = None
    """From an agent: Slurm job id, the launcher's run id, or PMIx's namespace.

    In a fleet: the job name of `fleet.jobs.jobs`.
    """
    launcher: Whole | None = None
    """The nearest ancestor process that is no rank itself: its launcher."""
    launcher_stopped: bool = False
    """True if a signal (SIGSTOP, Ctrl-Z) has stopped its launcher: nobody reads its output."""
    container: Name | None = None
    inner_pid: Whole | None = None
    """Its pid in the pid namespace of a container, as its own log lines use it; None: the same."""
    variables: Table[Text] = {}
    """Only whitelisted environment variables."""
    piped: bool = False
    """True if its output goes into a pipe, so that the reader, such as its launcher, writes the log."""
    logs: Few[Name] = []
    """Regular files behind its write-only descriptors."""

    @property
    def on_loopback(self) -> bool:
        """Return True if the rendezvous is a loopback address, which only the process's node can reach."""
        return (self.master or "").startswith(LOOPBACK)

    @property
    def inferred(self) -> bool:
        """Return True if the process's rank is only inferred from the order of start; it is shown as `~3`."""
        return self.rank_source == "order"


UNLIMITED = -1
"""The value of an unlimited resource limit."""


class RankSettings(FramePart, frozen=True):
    """The settings of one rank's process: interpreter, library versions, environment, limits."""

    pid: Whole
    rank: Rank | None = None
    parent: Whole | None = None
    """The process that started it, usually a launcher."""
    python: Name | None = None
    """Its interpreter."""
    torch: Name | None = None
    """By the package's metadata on disk; nothing is imported."""
    nccl: Name | None = None
    """The version of the library that is mapped into it, else of the package beside its torch."""
    variables: Table[Text] = {}
    """Variables of NCCL, CUDA, gloo and Slurm, as listed in `agent/processes/settings_report.py`."""
    memlock_bytes: Whole | None = None
    nofile: Whole | None = None


class NodeSettings(FramePart, frozen=True):
    """The answer to `AskRankSettings`: what one node's ranks use, and which addresses it reaches."""

    shm_total_bytes: Whole | None = None
    shm_used_bytes: Whole | None = None
    fabric_manager: bool | None = None
    """True if NVIDIA's fabric manager runs; None: this node has no NVSwitch."""
    reached: Table[Text] = {}
    """Requested address -> why the connection failed; "": it succeeded."""
    listens: Table[Whole | None] = {}
    """Requested port -> pid that listens on it here, 0: an unknown process; None: none."""
    ranks: Many[RankSettings] = []


class SystemSettings(FramePart, frozen=True):
    """The answer to `AskSystemSettings`: firmware, kernel, network and driver options of one machine.

    `agent/host/system_settings.py` lists them.
    """

    values: Table[Text] = {}
