"""Reads GPM: activity of SMs, tensor cores, memory and links between two samples (Hopper and later)."""

from ..base import nvml_codes
from ..base.rates import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller

_MIB = 1048576.0
_BLANK = 1e15
METRICS = {
    "sm_activity_pct": (2, 1.0),
    "sm_occupancy_pct": (3, 1.0),
    "tensor_activity_pct": (5, 1.0),
    "dram_activity_pct": (10, 1.0),
    "fp32_activity_pct": (12, 1.0),
    "pcie_tx_bps": (20, _MIB),
    "pcie_rx_bps": (21, _MIB),
    "nvlink_rx_bps": (60, _MIB),
    "nvlink_tx_bps": (61, _MIB),
}
"""Wire field -> (nvmlGpmMetricId_t, unit factor): percentages, and MiB per second."""

LABEL = "sm_activity_pct sm_occupancy_pct tensor_activity_pct dram_activity_pct fp32_activity_pct"


class Gpm(object):
    """The two GPM sample buffers of one GPU; each reading swaps them.

    Raises:
        GpuLost: as `NvmlCaller.ask`.
    """

    def __init__(self, asker: "NvmlCaller", handle: "Any") -> None:
        self._asker = asker
        self._handle = handle
        self._before = asker.ask(LABEL, "nvmlGpmSampleAlloc")
        self._now = asker.ask(LABEL, "nvmlGpmSampleAlloc")
        binding = asker.nvml.binding
        self._request = binding.c_nvmlGpmMetricsGet_t()
        self._request.version = binding.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(METRICS)
        for place, (metric, _) in enumerate(METRICS.values()):
            self._request.metrics[place].metricId = metric
        self._primed = False
        self.read()  # so that the next reading has values

    @staticmethod
    def supported(asker: "NvmlCaller", handle: "Any") -> bool:
        """Return True if NVML states that the GPU supports GPM; False also if the call fails."""
        support = asker.ask(LABEL, "nvmlGpmQueryDeviceSupport", handle)
        return bool(support is not None and support.isSupportedDevice)

    def read(self) -> "dict[str, float]":
        """Return wire field -> mean value since the previous reading; empty the first time, or on a failure.

        Raises:
            GpuLost: as `NvmlCaller.ask`.
        """
        if self._before is None or self._now is None:
            return {}
        self._before, self._now = self._now, self._before
        if self._asker.ask(LABEL, "nvmlGpmSampleGet", self._handle, self._now) is None:
            self._primed = False
            return {}
        if not self._primed:
            self._primed = True
            return {}
        self._request.sample1, self._request.sample2 = self._before, self._now
        if self._asker.ask(LABEL, "nvmlGpmMetricsGet", self._request) is None:
            return {}
        return self._values()

    def forget(self) -> None:
        """Discard the previous sample, so that the next values do not span it."""
        self._primed = False

    def _values(self) -> "dict[str, float]":
        found = {}
        for place, (name, (_, unit)) in enumerate(METRICS.items()):
            metric = self._request.metrics[place]
            value = metric.value
            if metric.nvmlReturn == nvml_codes.OK and 0.0 <= value < _BLANK:
                found[name] = short(value * unit)
        return found
