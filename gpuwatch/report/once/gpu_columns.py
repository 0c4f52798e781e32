"""Columns of `once`'s GPU table, and their cell texts."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gpuwatch.fleet.nodes.metrics import METRICS, power_text
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.number_text import UNKNOWN, scaled_text, seconds_text
from gpuwatch.report.once.json_output import processes_on
from gpuwatch.wire import Process

OLD_TICKS = 1.5
"""A value older than this many ticks is shown with its age."""


class GpuColumn(Struct, frozen=True):
    """A column of the GPU table. A narrow terminal drops those with the highest `rank` first."""

    title: str
    text: Callable[[Gpu, Node, float], str]
    rank: int
    right: bool = True


def gpu_style(gpu: Gpu, node: Node, now: float) -> str:
    """Return the style of a row, by the state of its GPU."""
    if gpu.state != "ok":
        return "critical"
    return "muted" if is_old(gpu, node, now) else "plain"


def is_old(gpu: Gpu, node: Node, now: float) -> bool:
    """Return True if there are values older than `OLD_TICKS` ticks, or of a node that is not live."""
    age = gpu.age(now)
    return age is not None and (age > OLD_TICKS * node.interval_s or node.state(now) != "live")


def state_text(gpu: Gpu, node: Node, now: float) -> str:
    """Return `ok`, `12s old`, `stuck 5s`, `lost`; old values keep their age, a dash without values."""
    age = gpu.age(now)
    aged = f"{seconds_text(age)} old" if age is not None and is_old(gpu, node, now) else ""
    if gpu.state == "stuck":
        stuck = gpu.stuck_s(now)
        return "stuck" if stuck is None else f"stuck {seconds_text(stuck)}"
    if gpu.state == "lost":
        return f"lost, {aged}" if aged else "lost"
    if gpu.state == "unanswered":
        return "no answer yet"
    return aged or ("ok" if age is not None else UNKNOWN)


def memory_text(gpu: Gpu, _node: Node, now: float) -> str:
    """Return used and total memory, `71.2G/80.0G`, with `unified` if it is the host's memory."""
    used = METRICS["memused"].format(METRICS["memused"].read(gpu, now)).strip()
    live = None if gpu.fast is None else gpu.fast.memory_total_bytes
    total = live or gpu.info.memory_total_bytes
    shared = " unified" if gpu.info.unified_memory else ""
    return f"{used}/{UNKNOWN if total is None else scaled_text(total, 1024)}{shared}"


def holders_text(gpu: Gpu, node: Node, _now: float) -> str:
    """Return why a GPU is not ok, else its processes."""
    if gpu.state in ("stuck", "unanswered"):
        return f"in {gpu.stuck_in}" if gpu.stuck_in else gpu.reason or ""
    if gpu.state == "lost":
        return gpu.reason or ""
    return "; ".join(process_text(process, gpu) for process in processes_on(node, gpu))


def process_text(process: Process, gpu: Gpu | None = None) -> str:
    """Return `rank 3 alice 4242 python 71.2G`; the memory is that on `gpu`, if given."""
    rank = "" if process.rank is None else f"rank {'~' * process.inferred}{process.rank} "
    text = f"{rank}{process.user or UNKNOWN} {process.pid} {process.name}"
    if gpu is None:
        return text
    held = next((hold.memory_bytes for hold in process.gpus if hold.uuid == gpu.info.uuid), None)
    return text if held is None else f"{text} {scaled_text(held, 1024)}"


def metric_text(name: str) -> Callable[[Gpu, Node, float], str]:
    """Return a function that formats a metric of a GPU as the screens do."""
    metric = METRICS[name]
    return lambda gpu, _node, now: metric.format(metric.read(gpu, now)).strip()


COLUMNS = (
    GpuColumn("gpu", lambda gpu, _node, _now: str(gpu.info.index), 0),
    GpuColumn("name", lambda gpu, _node, _now: gpu.info.name or UNKNOWN, 5, right=False),
    GpuColumn("util", metric_text("util"), 0),
    GpuColumn("memory", memory_text, 0),
    GpuColumn("temp", metric_text("temp"), 1),
    GpuColumn("power", lambda gpu, _node, now: power_text(gpu, now), 1),
    GpuColumn("SM MHz", metric_text("smclk"), 4),
    GpuColumn("tensor", metric_text("tensor"), 3),
    GpuColumn("throttled", metric_text("throttle"), 2),
    GpuColumn("state", state_text, 0, right=False),
    GpuColumn("processes", holders_text, 0, right=False),
)
"""All columns in order; the last one takes the remaining width and is cut there."""
