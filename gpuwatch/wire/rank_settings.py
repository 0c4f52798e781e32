"""Settings that a node reports only on request: of its ranks, and of the machine."""

from __future__ import annotations

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Many, Name, Rank, Table, Text, Whole

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
