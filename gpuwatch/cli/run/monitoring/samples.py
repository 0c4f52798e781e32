"""Mean GPU values over a run, and the processes, ranks and GPUs of the command."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
from msgspec import Struct

from gpuwatch.agent.ranks.rank_environment import identity
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.readings import memory_pct
from gpuwatch.wire import GpuFast


@dataclass
class Mean:
    """The running mean and the peak of a series of values."""

    count: int = 0
    total: float = 0.0
    peak: float | None = None

    def add(self, value: float | None) -> None:
        """Add a value to the count, the sum and the peak; None is ignored."""
        if value is not None:
            self.count += 1
            self.total += value
            self.peak = value if self.peak is None else max(self.peak, value)

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self.total / self.count if self.count else None


@dataclass
class GpuSamples:
    """Mean values of one GPU over the run."""

    node: str
    gpu: Gpu
    means: dict[str, Mean] = field(
        default_factory=lambda: {name: Mean() for name in ("utilization", "memory", "temperature", "power")}
    )
    energy_j: tuple[float, float] | None = None
    """Energy counter in joules at the first and at the last reading."""

    def add(self, fast: GpuFast) -> None:
        """Add one reading."""
        self.means["utilization"].add(fast.utilization_pct)
        self.means["memory"].add(memory_pct(fast))
        self.means["temperature"].add(fast.temperature_c)
        self.means["power"].add(fast.power_w)
        if fast.energy_j is not None:
            self.energy_j = (self.energy_j[0] if self.energy_j else fast.energy_j, fast.energy_j)

    def facts(self) -> dict[str, Any]:
        """Return the GPU's entry of `gpus` in the summary."""
        info, means = self.gpu.info, self.means
        return {
            "node": self.node,
            "index": info.index,
            "uuid": info.uuid,
            "name": info.name,
            "memory_total_bytes": info.memory_total_bytes,
            "utilization_avg_pct": means["utilization"].mean,
            "utilization_peak_pct": means["utilization"].peak,
            "memory_avg_pct": means["memory"].mean,
            "memory_peak_pct": means["memory"].peak,
            "temperature_avg_c": means["temperature"].mean,
            "temperature_max_c": means["temperature"].peak,
            "power_avg_w": means["power"].mean,
            "energy_j": None if self.energy_j is None else self.energy_j[1] - self.energy_j[0],
            "samples": max(each.count for each in means.values()),
        }


class NodeSamples:
    """Everything sampled on the node of a run."""

    def __init__(self) -> None:
        self.gpus: dict[str, GpuSamples] = {}
        self.ranks: dict[int, SlowRank] = {}
        """Processes of the command that are ranks, by pid; ended ones too."""
        self.gpus_of: dict[int, list[str]] = {}
        """Pid of a process of the command -> UUIDs of its GPUs."""
        self.jobs: set[str] = set()
        """The fleet's job names of these processes."""
        self.used: set[str] = set()
        """UUIDs of GPUs that these use or used."""
        self.interpreter: str | None = None
        """The interpreter of the first rank, else of the first Python process of the command."""
        self.cpu, self.memory = Mean(), Mean()
        self._seen: dict[str, float] = {}
        self._host_at: float | None = None

    def new_readings(self, node: Node) -> Iterator[tuple[Gpu, GpuFast]]:
        """Add the readings of GPUs and host received since the last call; yield those of the GPUs.

        Nothing is added until the result is iterated.
        """
        for uuid, gpu in node.gpus.items():
            if gpu.fast is None or gpu.fast_at is None or self._seen.get(uuid) == gpu.fast_at:
                continue
            self._seen[uuid] = gpu.fast_at
            self.gpus.setdefault(uuid, GpuSamples(node.name, gpu)).add(gpu.fast)
            yield gpu, gpu.fast
        if node.host is not None and node.host_at != self._host_at:
            self._host_at = node.host_at
            self.cpu.add(node.host.cpu_pct)
            if node.host.memory_total_bytes and node.host.memory_used_bytes is not None:
                self.memory.add(100 * node.host.memory_used_bytes / node.host.memory_total_bytes)

    def take_processes(self, node: Node, child: int) -> None:
        """Record the processes below the pid `child` on this node: ranks, GPUs, jobs and interpreter."""
        ours = descendants(child)
        for pid in ours - self.ranks.keys():
            rank = rank_of(pid)
            if rank is not None:
                self.ranks[pid] = rank
        for process in node.processes:
            if process.pid in ours:
                self.gpus_of[process.pid] = [gpu.uuid for gpu in process.gpus]
                self.used.update(self.gpus_of[process.pid])
                self.jobs.update([process.job] if process.job else [])
                if process.rank is not None:  # of ranks that their program numbers itself
                    known = (process.rank, process.local_rank, process.world_size)
                    self.ranks.setdefault(process.pid, SlowRank(process.pid, *known))
        if self.interpreter is None:
            self.interpreter = next(filter(None, map(python_of, [*self.ranks, *sorted(ours)])), None)

    def is_of_run(self, alert: Alert, folder: str, start: float = 0.0) -> bool:
        """Return True if an alert is about the run: its log files, its job, a GPU it uses, or its node.

        Alerts with another job or another job's log are not, nor those that ended before `start` (unix
        seconds). `folder` is the session's.
        """
        if alert.last + alert.error_s < start:
            return False
        if any(proof.file and proof.file.startswith(f"{folder}/") for proof in alert.proof):
            return True
        if alert.job is not None:
            return alert.job in self.jobs
        if alert.rank is not None or any(proof.file for proof in alert.proof if not alert.kernel):
            return False
        indexes = {each.gpu.info.index for each in self.used_gpus()}
        return alert.gpu is None or alert.gpu in indexes

    def used_gpus(self) -> list[GpuSamples]:
        """Return the GPUs that the command uses or has used, by index."""
        return sorted(
            (self.gpus[uuid] for uuid in self.used & self.gpus.keys()), key=lambda one: one.gpu.info.index
        )


class SlowRank(Struct, frozen=True):
    """The rank in a process's environment, with its numbers; None for unknown ones."""

    pid: int
    rank: int
    local_rank: int | None
    world_size: int | None


def rank_of(pid: int) -> SlowRank | None:
    """Return the rank, local rank and world size in a process's environment; None if it states no rank."""
    try:
        env = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return None
    facts = identity(env)
    if "rank" not in facts:
        return None
    numbers = {name: facts.get(name) for name in ("rank", "local_rank", "world_size")}
    return msgspec.convert({"pid": pid, **numbers}, SlowRank)


def descendants(pid: int) -> set[int]:
    """Return the pids of a process and all its descendants; only its own if it is gone.

    They are read from the children that the kernel lists for each thread, which costs nothing for the other
    processes of the machine; without that list (CONFIG_PROC_CHILDREN) from all processes.
    """
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        with contextlib.suppress(psutil.Error):
            return {pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))}
        return {pid}
    found, waiting = {pid}, [pid]
    while waiting:
        new = children(waiting.pop()) - found
        found |= new
        waiting += new
    return found


def children(pid: int) -> set[int]:
    """Return the pids of the children of a process, as the kernel lists them; empty if it is gone."""
    found: set[int] = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with contextlib.suppress(OSError):
                found.update(map(int, Path(thread.path, "children").read_bytes().split()))
    return found


def python_of(pid: int) -> str | None:
    """Return the path of a process's Python interpreter; None if it is not Python, or the path is unknown.

    A name without a folder, as in `python train.py`, is looked up on the PATH of the process. The file that
    the kernel names is not taken: in a virtual environment it is the interpreter outside of it.
    """
    try:
        process = psutil.Process(pid)
        words, env, folder = process.cmdline(), process.environ(), process.cwd()
    except (psutil.Error, OSError):
        return None
    name = words[0] if words else ""
    if not name.rpartition("/")[2].startswith("python"):
        return None
    if "/" in name:
        return str(Path(folder, name))
    path = shutil.which(name, path=env.get("PATH", os.defpath))
    return path if path is not None and Path(path).is_absolute() else None
