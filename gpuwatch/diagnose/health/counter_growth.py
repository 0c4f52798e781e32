"""Conditions from increases of counters: NVLink errors and PCIe replays between two readings of a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import GpuSlow

CRC_WEIGHT = 0.01
"""Weight of a CRC error against other NVLink errors: a replay repairs it."""
LANE_GT = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""PCIe generation -> transfer rate per lane in GT/s."""


class Growth(Struct, frozen=True):
    """Two readings of a GPU's slow tier, the older first."""

    before: GpuSlow
    after: GpuSlow

    def conditions(self, gpu: Gpu, thresholds: Thresholds) -> Iterator[Condition]:
        """Yield conditions for counters that grew too fast. A counter that fell was reset and is ignored."""
        yield from self._links(gpu, thresholds)
        yield from self._replays(gpu)

    def _links(self, gpu: Gpu, thresholds: Thresholds) -> Iterator[Condition]:
        before, after = self.before.nvlink_errors or {}, self.after.nvlink_errors or {}
        grown = {
            name: after[name] - before[name] for name in after if after[name] > before.get(name, math.inf)
        }
        weight = sum(count * (CRC_WEIGHT if name == "crc" else 1.0) for name, count in grown.items())
        if grown and weight >= thresholds.nvlink_errors:
            stated = ", ".join(f"{count} {name}" for name, count in sorted(grown.items()))
            evidence = Evidence("NVLink errors since the previous reading", stated)
            yield Condition("nvlink_errors", "warning", f"NVLink errors: {stated}", evidence, gpu.info.index)

    def _replays(self, gpu: Gpu) -> Iterator[Condition]:
        """Yield a condition if PCIe replays per minute reach DCGM's limit.

        Limit: lane rate [GT/s] / 1000 x 60 x lanes, rounded up.
        """
        before, after, seconds = (
            self.before.pcie_replays,
            self.after.pcie_replays,
            self.after.t - self.before.t,
        )
        rate = LANE_GT.get(gpu.info.pcie_gen_max or 0)
        if before is None or after is None or seconds <= 0 or rate is None or not gpu.info.pcie_width_max:
            return
        limit = math.ceil(rate / 1000.0 * 60.0 * gpu.info.pcie_width_max)
        grown = (after - before) * 60.0 / seconds
        if grown >= limit:
            evidence = Evidence("PCIe replays", round(grown, 1), " a minute", limit)
            yield Condition(
                "pcie_replays", "warning", f"{grown:.0f} PCIe replays a minute", evidence, gpu.info.index
            )
