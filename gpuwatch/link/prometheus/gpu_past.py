"""Reads GPU history from before gpuwatch started: the last day, and the last minutes in finer steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gpuwatch.link.prometheus.client import PrometheusClient, PrometheusError
from gpuwatch.link.prometheus.discovery import find
from gpuwatch.link.prometheus.gpu_query import MAX_TIME
from gpuwatch.link.prometheus.history import SHOWN_FIELDS
from gpuwatch.link.prometheus.tier_values import built
from gpuwatch.link.prometheus.vocabularies import Vocabulary
from gpuwatch.wire import GpuFast

DAY_S, FINE_HISTORY_S = 86_400.0, 900.0
DAY_STEP_S = 120.0
"""Seconds between points of the day's history."""
MAX_POINTS = 100_000
"""Most points over all GPUs in each range; with more GPUs the step grows."""
GPUS_AT_ONCE = 100
"""GPUs per query, by UUID."""
UUID = re.compile(r"[A-Za-z0-9-]{1,80}")
"""UUIDs come from nodes and are put into a PromQL pattern, so they are checked."""

Readings: TypeAlias = "list[tuple[float, GpuFast]]"


@dataclass
class GpuPast:
    """The history of one GPU; times are the session's monotonic clock (seconds), oldest first."""

    day: Readings = field(default_factory=list)
    recent: Readings = field(default_factory=list)
    recent_step_s: float = 1.0


def gpu_past(
    client: PrometheusClient, uuids: Sequence[str], clock: Callable[[], float]
) -> Mapping[str, GpuPast]:
    """Return UUID -> history; GPUs unknown to the server are left out.

    Args:
        client: Queries the server.
        uuids: Of the GPUs.
        clock: Monotonic seconds of the session.

    Raises:
        PrometheusError: no answer, an invalid one, or no series of GPUs.
    """
    found = find(client)
    if found.gpus is None:
        raise PrometheusError("no series of GPUs (gpuwatch exporter, dcgm-exporter)")
    asked_at = clock()
    answers = client.instant("vector(1)")
    if not answers:
        raise PrometheusError("the answer is not from a Prometheus server")
    server = answers[0].value[0]
    if not 0 < server < MAX_TIME:
        raise PrometheusError("it reports an invalid time")
    shift = asked_at - server
    known = [uuid for uuid in uuids if UUID.fullmatch(uuid)]
    fewest = max(1, MAX_POINTS // max(1, len(known)))
    day_step = max(DAY_STEP_S, DAY_S / fewest)
    recent_step = max(found.interval_s, FINE_HISTORY_S / fewest)
    past: dict[str, GpuPast] = {}
    for first in range(0, len(known), GPUS_AT_ONCE):
        some = known[first : first + GPUS_AT_ONCE]
        for uuid, readings in _range(client, found.gpus, some, (server - DAY_S, server, day_step)):
            past.setdefault(uuid, GpuPast()).day = [(at + shift, fast) for at, fast in readings]
        for uuid, readings in _range(
            client, found.gpus, some, (server - FINE_HISTORY_S, server, recent_step)
        ):
            known_past = past.setdefault(uuid, GpuPast())
            known_past.recent = [(at + shift, fast) for at, fast in readings]
            known_past.recent_step_s = recent_step
    return past


def _range(
    client: PrometheusClient, words: Vocabulary, uuids: Sequence[str], span: tuple[float, float, float]
) -> Iterator[tuple[str, Readings]]:
    columns = words.columns["fast"]
    wanted = [metric for metric in columns.metrics if columns.field_of(metric) in SHOWN_FIELDS]
    label = "uuid" if words.name == "gpuwatch" else "UUID"
    matcher = f'{label}=~"{"|".join(uuids)}"'
    values: dict[str, dict[float, dict[str, Any]]] = {}
    for series in client.range(client.target.any_of(wanted, matcher), *span):
        times = values.setdefault(words.uuid_of(series.metric), {})
        for at, text in series.values:
            if not span[0] - DAY_S <= at <= span[1] + DAY_S:
                continue  # outside of the requested period
            columns.put(times.setdefault(at, {}), series.metric.metric, text)
    for uuid, times in values.items():
        built_ones = ((at, built(GpuFast, {**times[at], "t": at})) for at in sorted(times))
        yield uuid, [(at, fast) for at, fast in built_ones if fast is not None]
