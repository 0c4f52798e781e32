"""A frame value as a Prometheus series: name, unit and field."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

MetricKind: TypeAlias = Literal["gauge", "counter", "info"]


class MetricFamily(Struct, frozen=True, eq=False):  # hashed for every sample: by identity
    """The name, type and help text of series that differ only in labels."""

    name: str
    """The name as in samples: a counter's ends in `_total`, an info's in `_info`."""
    kind: MetricKind
    help: str


class TierSeries(Struct, frozen=True):
    """A field of a frame that is exported as a series: value * `times` / `over`."""

    family: MetricFamily
    field: str
    times: int = 1
    over: int = 1

    def exported(self, value: float) -> float:
        """Return a field's value in the unit of the series."""
        scaled = value * self.times / self.over if self.over != 1 else value * self.times
        return float(scaled) if isinstance(value, bool) else scaled

    def read(self, value: float) -> float:
        """Return a value of the series in the unit of the frame's field."""
        return value * self.over / self.times


def gauge(name: str, text: str, field: str, times: int = 1, over: int = 1) -> TierSeries:
    """Return a gauge for a field: a series whose value goes up and down."""
    return TierSeries(MetricFamily(name, "gauge", text), field, times, over)


def counter(name: str, text: str, field: str, times: int = 1, over: int = 1) -> TierSeries:
    """Return a counter for a field: a series whose value grows until a restart."""
    return TierSeries(MetricFamily(name, "counter", text), field, times, over)
