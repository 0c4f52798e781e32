"""Recent load of the GPUs of a job's ranks, as means over the window of the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.health.counter_growth import LANE_GT
from gpuwatch.diagnose.health.peer_comparison import WORKING_PCT
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.wire import GpuFast, GpuInfo, GpuMedium, GpuSlow, Process

Group: TypeAlias = tuple[str, str]
"""Job and GPU model; only GPUs within a group are compared."""


class GpuLoad(Struct, frozen=True):
    """Load of one rank's GPU: means of utilization, clock, power, temperature and rates. None: unknown."""

    rank: int
    job: str
    node: str
    rack: str | None
    info: GpuInfo
    age_s: float
    fast: GpuFast
    medium: GpuMedium | None
    slow: GpuSlow | None
    busy_pct: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    pcie_bps: float | None = None
    nvlink_bps: float | None = None

    @property
    def pcie_rate(self) -> float | None:
        """Return the rate of the GPU's PCIe link in GT/s times lanes; None: unknown.

        Also None for an idle GPU, which narrows its link.
        """
        if self.medium is None or self.busy_pct is None or self.busy_pct < WORKING_PCT:
            return None
        return LANE_GT.get(self.medium.pcie_gen or 0, 0.0) * (self.medium.pcie_width or 0) or None

    @property
    def pcie(self) -> str:
        """Return `gen 5 x16`; "" if unknown."""
        return "" if self.medium is None else f"gen {self.medium.pcie_gen} x{self.medium.pcie_width}"

    @property
    def power_limit_w(self) -> float | None:
        """Return the enforced power limit in watts; None: unknown."""
        return None if self.medium is None else self.medium.power_limit_w


class Usual(Struct, frozen=True):
    """Medians of the loads of a group of GPUs; None: unknown."""

    busy_pct: float | None
    clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    power_limit_w: float | None
    pcie_rate: float | None

    @classmethod
    def of(cls, group: Sequence[GpuLoad]) -> Usual:
        """Return the medians of all ranks of one job and GPU model."""
        return cls(
            middle(each.busy_pct for each in group),
            middle(each.clock_mhz for each in group),
            middle(each.power_w for each in group),
            middle(each.temperature_c for each in group),
            middle(each.power_limit_w for each in group),
            middle(each.pcie_rate for each in group),
        )


class Loads:
    """Reads the loads of ranks with a responding GPU, by job and GPU model, a few nodes at a time."""

    def __init__(self, fleet: Fleet, window_s: float) -> None:
        """Start reading.

        Args:
            fleet: All that is known.
            window_s: Seconds over which means are taken; a value that is mostly unknown there is None.
        """
        self._nodes = list(fleet.nodes.values())
        self._window_s = window_s
        self._found: dict[Group, dict[str, GpuLoad]] = {}

    def read(self, count: int, now: float) -> bool:
        """Read `count` more nodes; return True when all are read. `now`: the fleet's clock."""
        part, self._nodes = self._nodes[:count], self._nodes[count:]
        for node in part:
            self._read(node, now)
        return not self._nodes

    @property
    def groups(self) -> dict[Group, list[GpuLoad]]:
        """Return the GPU loads of the ranks read so far, grouped by job and GPU model."""
        return {group: list(ranks.values()) for group, ranks in self._found.items()}

    def _read(self, node: Node, now: float) -> None:
        # a data loader inherits the environment of its rank, and maybe its GPU, and is younger
        for process in sorted(node.processes, key=lambda each: each.pid):
            job = process.job
            if process.rank is None or job is None:
                continue
            for hold in process.gpus:
                gpu = node.gpus.get(hold.uuid)
                if gpu is None or hold.uuid in self._found.get((job, gpu.info.name), ()):
                    continue
                load = _load(process, job, gpu, node, now, self._window_s)
                if load is not None:
                    self._found.setdefault((job, gpu.info.name), {})[hold.uuid] = load


def _load(process: Process, job: str, gpu: Gpu, node: Node, now: float, window_s: float) -> GpuLoad | None:
    fast, medium, slow = gpu.of_late(node.interval_s, now)
    if gpu.state != "ok" or fast is None:
        return None
    means = gpu.history.means(max(1, int(window_s)), now)
    return GpuLoad(
        rank=-1 if process.rank is None else process.rank,
        job=job,
        node=node.name,
        rack=node.spec.labels.get("rack"),
        info=gpu.info,
        age_s=gpu.age(now) or 0.0,
        fast=fast,
        medium=medium,
        slow=slow,
        busy_pct=means.get("util"),
        clock_mhz=means.get("smclk"),
        power_w=means.get("power"),
        temperature_c=means.get("temp"),
        pcie_bps=means.get("pcie"),
        nvlink_bps=means.get("nvlink"),
    )


def middle(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values; None: none is known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
