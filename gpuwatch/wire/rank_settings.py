"""What a node reports only when it is asked: the settings under which the ranks on it run."""

from __future__ import annotations

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Many, Name, Rank, Table, Text, Whole

UNLIMITED = -1
"""Of a resource limit."""


class RankSettings(FramePart, frozen=True):
    """One rank's process."""

    pid: Whole
    rank: Rank | None = None
    parent: Whole | None = None
    """The process that started it: a launcher, where there is one."""
    python: Name | None = None
    """Its interpreter."""
    torch: Name | None = None
    """By the package's metadata on its disk; nothing is imported."""
    nccl: Name | None = None
    """Of the library that is mapped into it, else of the package beside its torch."""
    variables: Table[Text] = {}
    """NCCL's, CUDA's, gloo's and Slurm's, as `agent/processes/settings_report.py` lists them."""
    memlock_bytes: Whole | None = None
    nofile: Whole | None = None


class NodeSettings(FramePart, frozen=True):
    """One node."""

    shm_total_bytes: Whole | None = None
    shm_used_bytes: Whole | None = None
    fabric_manager: bool | None = None
    """Whether NVIDIA's fabric manager runs; None: this node has no NVSwitch to manage."""
    reached: Table[Text] = {}
    """Address that was asked for -> why it could not be connected to; empty: it could."""
    listens: Table[Whole | None] = {}
    """Port that was asked for -> pid that listens on it here, 0: somebody's; None: nobody."""
    ranks: Many[RankSettings] = []


class SystemSettings(FramePart, frozen=True):
    """One machine: firmware, kernel, network and driver options.

    `agent/host/system_settings.py` names them.
    """

    values: Table[Text] = {}
