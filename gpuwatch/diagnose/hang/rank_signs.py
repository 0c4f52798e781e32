"""Signs of every rank of a job as seen from outside: its last log line, its process and its GPU."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.stacks.kernel_waits import STOPPED
from gpuwatch.diagnose.missing_ranks.missing import missing_ranks
from gpuwatch.diagnose.model.text import place
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import STALE_TICKS, Gpu, Node
from gpuwatch.wire import GpuFast, Process

ENDED = "Z"
"""Process state of a rank that has ended, also where the process is gone."""
SERVERS = ("vllm", "sglang", "tritonserver", "text-generation", "trtllm", "lmdeploy")
"""Inference engines: without requests they spin in collectives although healthy."""
IDLE_AFTER_S = 10
"""Seconds for which a GPU is idle before its rank counts as idle."""
STOPPED_S = 15.0
"""Hang window (seconds) if some ranks are stopped by SIGSTOP or a debugger and others are not."""


def some_are_stopped(states: Iterable[str | None]) -> bool:
    """Return True if some of the ranks with these process states are stopped, and others are not.

    A job that is suspended as a whole is no hang.
    """
    return {state in STOPPED for state in states} == {True, False}


class RankSigns(Struct, frozen=True):
    """The outside signs of one rank (log, process state, GPU use and power); None: unknown."""

    rank: int
    node: str
    job: str
    pid: int
    """Process id; 0: the rank ended before its process was seen."""
    gpu: int | None = None
    uuid: str | None = None
    wrote_s: float | None = None
    """Seconds since the rank's log last grew."""
    stepped_s: float | None = None
    """Seconds since the rank reported a step; None: it never did."""
    state: str | None = None
    """State of the process in /proc; D: waits in the kernel, Z: has ended."""
    busy_pct: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    tensor_pct: float | None = None
    cpu_pct: float | None = None
    """CPU use of the process and of what it has started, in percent of one core."""
    reachable: bool = True
    """True if frames from its node are recent."""

    @property
    def place(self) -> str:
        """Return a rank with its node and GPU as text: `rank 17 (gpu-003 GPU 1)`."""
        return place(self.rank, self.node, self.gpu)


def jobs_of(fleet: Fleet, now: float, wall: float) -> dict[str, list[RankSigns]]:
    """Return job -> signs of its ranks by number, for every job with an id; inference servers are left out.

    Missing ranks are included with state ENDED and pid 0.

    Args:
        fleet: All that is known now.
        now: Monotonic seconds, the fleet's own clock.
        wall: Unix seconds.
    """
    jobs: dict[str, dict[int, RankSigns]] = {}
    stepped = _stepped(fleet, now)
    for node in fleet.nodes.values():
        if not node.processes:
            continue
        wrote = _wrote(node, wall)
        for process in sorted(node.processes, key=lambda process: process.pid):
            job = process.job
            if process.rank is None or job is None or _serves(process):
                continue
            # a data loader inherits the environment of its rank, which is older
            ranks = jobs.setdefault(job, {})
            if process.rank not in ranks:
                age = stepped.get((job, process.rank), stepped.get((job, None)))
                ranks[process.rank] = replace(_signs(node, process, job, wrote, now), stepped_s=age)
    for one in missing_ranks(fleet, now):
        gone = RankSigns(one.rank, one.node.name, one.job, 0, state=ENDED)
        jobs.get(one.job, {}).setdefault(one.rank, gone)
    return {job: [ranks[number] for number in sorted(ranks)] for job, ranks in jobs.items()}


def _stepped(fleet: Fleet, now: float) -> dict[tuple[str | None, int | None], float]:
    """Return (job, rank) -> seconds since the last reported step; rank None: a log whose rank is unknown."""
    found: dict[tuple[str | None, int | None], float] = {}
    for writer in fleet.progress.writers.values():
        if writer.stepped_at is not None:
            key, age = (writer.job, writer.rank), max(0.0, now - writer.stepped_at)
            found[key] = min(age, found.get(key, age))
    return found


def _serves(process: Process) -> bool:
    words = f"{process.name} {process.command or ''}".lower()
    return any(name in words for name in SERVERS)


def _wrote(node: Node, wall: float) -> dict[int, float]:
    """Return pid -> seconds since one of the log files of that process last grew."""
    found: dict[int, float] = {}
    for file in node.logs:
        age = node.silent_s(file, wall)
        if age is None or file.source == "kernel":
            continue
        for pid in file.pids:
            found[pid] = min(age, found.get(pid, age))
    return found


def _signs(node: Node, process: Process, job: str, wrote: dict[int, float], now: float) -> RankSigns:
    gpu = node.gpus.get(process.gpus[0].uuid) if process.gpus else None
    fast = gpu.fast if gpu is not None and _fresh(gpu, node, now) else None
    return RankSigns(
        rank=process.rank if process.rank is not None else -1,
        node=node.name,
        job=job,
        pid=process.pid,
        gpu=None if gpu is None else gpu.info.index,
        uuid=None if gpu is None else gpu.info.uuid,
        wrote_s=wrote.get(process.pid),
        state=process.state,
        busy_pct=None if fast is None or gpu is None else _busy(gpu, fast, now),
        power_w=None if fast is None else fast.power_w,
        power_limit_w=None if gpu is None or gpu.medium is None else gpu.medium.power_limit_w,
        tensor_pct=None if fast is None else fast.tensor_activity_pct,
        cpu_pct=_cpu_pct(process),
        reachable=node.state(now) == "live",
    )


def _cpu_pct(process: Process) -> float | None:
    """Return the CPU use of a process and of those that it has started, in percent of a core; None: unknown.

    A rank waits for its tokenizers.
    """
    known = [each for each in (process.cpu_pct, process.children_cpu_pct) if each is not None]
    return sum(known) if known else None


def _busy(gpu: Gpu, fast: GpuFast, now: float) -> float | None:
    """Return the utilization in percent, or its recent mean if that is higher; None: unknown.

    Between two batches a single sample is 0 %.
    """
    recent = gpu.history.mean("util", IDLE_AFTER_S, now)
    known = [each for each in (fast.utilization_pct, recent) if each is not None]
    return max(known) if fast.utilization_pct is not None else None


def _fresh(gpu: Gpu, node: Node, now: float) -> bool:
    age = gpu.age(now)
    return gpu.state == "ok" and age is not None and age <= max(5.0, STALE_TICKS * node.interval_s)
