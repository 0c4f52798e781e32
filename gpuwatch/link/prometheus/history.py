"""Reads GPU history by range queries, as samples to be delivered before the first current one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuwatch.link.prometheus.client import PrometheusClient
from gpuwatch.link.prometheus.gpu_query import GpuQuery
from gpuwatch.link.prometheus.tier_values import built
from gpuwatch.wire import GpuFast, GpuSample, Sample

HISTORY_S = 3600.0
POINTS_IN_TIME = 20_000
"""Points over all GPUs, which take half a second; above 2,000 GPUs there is no history at the start."""
LEAST_POINTS = 10
SHOWN_FIELDS = (
    "utilization_pct", "memory_used_bytes", "memory_total_bytes", "temperature_c", "power_w", "sm_clock_mhz",
    "tensor_activity_pct",
)  # fmt: skip
"""The fields that GPU histories show."""


def step_s(gpus: int, interval_s: float) -> float | None:
    """Return the seconds between points of the history; None if there are too many GPUs for any history."""
    points = min(HISTORY_S / interval_s, POINTS_IN_TIME / max(1, gpus))
    return HISTORY_S / points if points >= LEAST_POINTS else None


def past_samples(
    client: PrometheusClient, query: GpuQuery, now: float, interval_s: float, gpus: int
) -> Mapping[str, Sequence[Sample]]:
    """Return node -> samples of the last hour, oldest first, without the newest scrape.

    Empty if there are too many GPUs for any history (see `step_s`).

    Args:
        client: Queries the server.
        query: Knows the GPUs, and the exporter of each node.
        now: The Prometheus' clock (unix seconds).
        interval_s: Between two scrapes.
        gpus: How many there are in all.

    Raises:
        PrometheusError: no answer.
    """
    step = step_s(gpus, interval_s)
    if step is None:
        return {}
    columns = query.words.columns["fast"]
    wanted = [metric for metric in columns.metrics if columns.field_of(metric) in SHOWN_FIELDS]
    values: dict[str, dict[float, dict[str, dict[str, Any]]]] = {}
    for series in client.range(client.target.any_of(wanted), now - HISTORY_S, now - interval_s, step):
        if not query.is_known(series.metric):
            continue
        node, uuid = query.words.node_of(series.metric), query.words.uuid_of(series.metric)
        of_node = values.setdefault(node, {})
        for at, text in series.values:
            columns.put(of_node.setdefault(at, {}).setdefault(uuid, {}), series.metric.metric, text)
    return {node: list(_samples(times, now)) for node, times in values.items()}


def _samples(times: Mapping[float, Mapping[str, Mapping[str, Any]]], now: float) -> Iterator[Sample]:
    for at in sorted(times):
        gpus = [
            GpuSample(uuid=uuid, fast=built(GpuFast, {**each, "t": at})) for uuid, each in times[at].items()
        ]
        yield Sample(t=now, seq=0, gpus=gpus)
