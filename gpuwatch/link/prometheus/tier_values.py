"""Converts Prometheus samples into fields of a frame's tier: text to number, units, range checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.link.prometheus.series.dcgm import DCGM_TIERS
from gpuwatch.link.prometheus.series.gpu import TIERS
from gpuwatch.link.prometheus.series.tier_series import TierSeries
from gpuwatch.plain import plain
from gpuwatch.wire import GpuFast, GpuMedium, GpuSlow

MAX_LABEL_CHARS = 200
S = TypeVar("S", bound=msgspec.Struct)
TIER_TYPES: Mapping[str, type[GpuFast | GpuMedium | GpuSlow]] = {
    "fast": GpuFast,
    "medium": GpuMedium,
    "slow": GpuSlow,
}


def kinds_of(struct: type[msgspec.Struct]) -> dict[str, type]:
    """Return field -> int, bool or float, for the fields of a struct that are a single number."""
    found: dict[str, type] = {}
    described = inspect.type_info(struct)
    for field in described.fields if isinstance(described, inspect.StructType) else ():
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        for kind in kinds:
            number = {inspect.IntType: int, inspect.BoolType: bool, inspect.FloatType: float}.get(type(kind))
            if number is not None:
                found[field.name] = number
    return found


class Columns:
    """Maps the metrics of one exporter to the fields of one tier."""

    def __init__(self, struct: type[msgspec.Struct], series: Sequence[TierSeries]) -> None:
        kinds = kinds_of(struct)
        self.struct = struct
        self._of = {each.family.name: (each, kinds[each.field]) for each in series}
        self.metrics = tuple(self._of)

    def field_of(self, metric: str) -> str:
        """Return the name of the frame field in which a Prometheus metric is stored."""
        return self._of[metric][0].field

    def put(self, values: dict[str, Any], metric: str, text: str) -> bool:
        """Store a sample's value in `values` under its field, unless it is not a finite number.

        Return False if the metric has no field; True also for a value that is not stored.
        """
        known = self._of.get(metric)
        if known is None:
            return False
        number = number_of(text)
        if number is None:
            return True
        series, kind = known
        read = series.read(number)
        values[series.field] = bool(read) if kind is bool else round(read) if kind is int else read
        return True


def number_of(text: str) -> float | None:
    """Return the value of a sample as a number; None if it is invalid or not finite."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def built(struct: type[S], values: Mapping[str, Any]) -> S | None:
    """Return a struct with these field values; None if one of them is invalid or missing."""
    try:
        return msgspec.convert(values, struct)
    except DECODE_ERRORS:
        return None


def label_text(text: str) -> str:
    """Return a label as a display name: sanitized and cut to `MAX_LABEL_CHARS`."""
    return plain(text)[:MAX_LABEL_CHARS]


OWN_COLUMNS = {tier: Columns(TIER_TYPES[tier], series) for tier, series in TIERS}
DCGM_COLUMNS = {tier: Columns(TIER_TYPES[tier], series) for tier, series in DCGM_TIERS}
