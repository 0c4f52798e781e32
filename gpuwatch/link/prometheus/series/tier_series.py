"""One value of a frame as a Prometheus series: its name, its unit and the field that it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

MetricKind: TypeAlias = Literal["gauge", "counter", "info"]


@dataclass(frozen=True, slots=True, eq=False)  # hashed for every sample: by identity
class MetricFamily:
    """The name, type and help of series that differ by their labels only."""

    name: str
    """As the samples carry it: a counter ends in `_total`, an info in `_info`."""
    kind: MetricKind
    help: str


@dataclass(frozen=True, slots=True)
class TierSeries:
    """A field of a tier of values, in the unit of its series: value * `times` / `over`."""

    family: MetricFamily
    field: str
    times: int = 1
    over: int = 1

    def exported(self, value: float) -> float:
        """A field's value in the unit of the series."""
        scaled = value * self.times / self.over if self.over != 1 else value * self.times
        return float(scaled) if isinstance(value, bool) else scaled

    def read(self, value: float) -> float:
        """The field's value behind a sample."""
        return value * self.over / self.times


def gauge(name: str, text: str, field: str, times: int = 1, over: int = 1) -> TierSeries:
    """A value that goes up and down."""
    return TierSeries(MetricFamily(name, "gauge", text), field, times, over)


def counter(name: str, text: str, field: str, times: int = 1, over: int = 1) -> TierSeries:
    """A value that grows until what counts it starts anew."""
    return TierSeries(MetricFamily(name, "counter", text), field, times, over)
