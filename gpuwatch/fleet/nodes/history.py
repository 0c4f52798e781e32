"""The history of a GPU and a host: 15 minutes per second, then 24 hours in 2-minute means and maxima.

Memory is bounded: a GPU's history takes 2,160 bytes at first, 16,200 after 15 minutes, and 2,160 more every
two hours, 42,120 after a day (345 MB for 8,192 GPUs). `bytes_per_gpu()` returns it; a test measures it.
"""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING

from gpuwatch.fleet.nodes.readings import (
    host_memory_pct,
    memory_pct,
    network_bps,
    nvlink_bps,
    pcie_bps,
    slowdown_pct,
)
from gpuwatch.wire import GpuFast, HostSample

if TYPE_CHECKING:
    from gpuwatch.fleet.nodes.rings import How, Rings, Series

RATE_SCALE = 1e8
"""Rates are stored in units of 100 MB/s, so that NVLink's terabytes per second fit into float16."""
GPU_SERIES = ("util", "mem", "power", "temp", "smclk", "tensor", "throttle", "pcie", "nvlink")
HOST_SERIES = ("cpu", "memory", "rx", "tx")
_RATES = frozenset(("pcie", "nvlink", "rx", "tx"))


def bytes_per_gpu() -> int:
    """Return the bytes that the rings of one GPU's full history take."""
    from gpuwatch.fleet.nodes.rings import BUCKETS, FINE_S  # noqa: PLC0415  as in _new_rings

    return 2 * len(GPU_SERIES) * (FINE_S + 2 * BUCKETS)


def _new_rings(columns: int) -> Rings:
    """Return empty rings. They need numpy, whose import (40 to 80 ms) must not delay the first paint."""
    from gpuwatch.fleet.nodes.rings import Rings  # noqa: PLC0415  that is why

    return Rings(columns)


class GpuHistory:
    """The time series of one GPU, by the names in `GPU_SERIES`."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings: Rings | None = None
        """Created with the first sample."""

    def add(self, at: float, sample: GpuFast, interval_s: float = 1.0) -> None:
        """Add the values of one tick; `at` is our monotonic clock.

        A sample covers the time since the previous one, up to 1.5 intervals; a longer time is a gap.
        """
        if self._rings is None:
            self._rings = _new_rings(len(GPU_SERIES))
        self._rings.add(at, interval_s, _gpu_row(sample))

    def add_before(self, at: float, sample: GpuFast) -> None:
        """Add values that represent two minutes of the time before the samples stored per second.

        Ignored without samples, more than a day back, or if these two minutes have values.
        """
        if self._rings is not None:
            self._rings.add_before(at, _gpu_row(sample))

    def follow(self, later: GpuHistory) -> None:
        """Append the values of a history that began later than this one."""
        if later._rings is not None:
            self._rings = self._rings or _new_rings(len(GPU_SERIES))
            self._rings.follow(later._rings)

    def series(
        self, name: str, seconds: float, points: int, now: float | None = None, how: How = "mean"
    ) -> Series:
        """Return the last `seconds` of a series as `points` values, oldest first, in the metric's unit.

        NaN where unknown. The last value covers the newest sample, or `now` as `Rings.series` describes.
        Ranges over 15 minutes use the 2-minute buckets.

        Raises:
            ValueError: There is no such series.
        """
        return _series(self._rings, GPU_SERIES, name, (seconds, points, now, how))

    def means(self, seconds: int, now: float) -> dict[str, float]:
        """Return series -> mean over the last `seconds`, without series that are mostly unknown there."""
        if self._rings is None:
            return {}
        found = dict(zip(GPU_SERIES, self._rings.means(seconds, now), strict=True))
        return {
            name: value * RATE_SCALE if name in _RATES else value
            for name, value in found.items()
            if not isnan(value)
        }

    def mean(self, name: str, seconds: int, now: float) -> float | None:
        """Return the mean of one series over the last `seconds`; None if it is mostly unknown there.

        Raises:
            ValueError: there are samples, but no such series.
        """
        if self._rings is None:
            return None
        value = self._rings.mean(GPU_SERIES.index(name), seconds, now)
        return None if isnan(value) else value * RATE_SCALE if name in _RATES else value

    def nbytes(self) -> int:
        """Return the bytes that the rings take now."""
        return 0 if self._rings is None else self._rings.nbytes()


class HostHistory:
    """The time series of one host, by the names in `HOST_SERIES`."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings: Rings | None = None

    def add(self, at: float, sample: HostSample, interval_s: float = 1.0) -> None:
        """Add the CPU, memory and network values of one tick; `at` is our monotonic clock."""
        if self._rings is None:
            self._rings = _new_rings(len(HOST_SERIES))
        rx, tx = network_bps(sample, "rx_bps"), network_bps(sample, "tx_bps")
        row = (
            _known(sample.cpu_pct),
            _known(host_memory_pct(sample)),
            nan if rx is None else rx / RATE_SCALE,
            nan if tx is None else tx / RATE_SCALE,
        )
        self._rings.add(at, interval_s, row)

    def series(
        self, name: str, seconds: float, points: int, now: float | None = None, how: How = "mean"
    ) -> Series:
        """Return the last `seconds` of a host's series as `points` values, as `GpuHistory.series` does."""
        return _series(self._rings, HOST_SERIES, name, (seconds, points, now, how))

    def nbytes(self) -> int:
        """Return the bytes that the rings take now."""
        return 0 if self._rings is None else self._rings.nbytes()


def _gpu_row(sample: GpuFast) -> tuple[float, ...]:
    """Return a GPU's values of one tick in the order of `GPU_SERIES`; NaN: unknown."""
    pcie, nvlink = pcie_bps(sample), nvlink_bps(sample)
    return (
        _known(sample.utilization_pct),
        _known(memory_pct(sample)),
        _known(sample.power_w),
        _known(sample.temperature_c),
        _known(sample.sm_clock_mhz),
        _known(sample.tensor_activity_pct),
        _known(slowdown_pct(sample)),
        nan if pcie is None else pcie / RATE_SCALE,
        nan if nvlink is None else nvlink / RATE_SCALE,
    )


def _known(value: float | None) -> float:
    return nan if value is None else value


def _series(
    rings: Rings | None, names: tuple[str, ...], name: str, window: tuple[float, int, float | None, How]
) -> Series:
    if name not in names:
        raise ValueError(f"no series {name!r}; there are {', '.join(names)}")
    values = (rings or _new_rings(len(names))).series(names.index(name), *window)
    if name in _RATES:
        values *= RATE_SCALE
    return values
