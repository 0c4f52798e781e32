"""Builds the plan of `--prometheus`: the nodes that it knows now, and their scrape interval."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.hosts.receivers import http_url
from gpuwatch.link.prometheus.client import PrometheusClient, PrometheusError, SeriesLabels
from gpuwatch.link.prometheus.tier_values import label_text
from gpuwatch.link.prometheus.vocabularies import (
    DCGM,
    DCGM_GPUS,
    NODE_EXPORTER,
    OWN,
    OWN_GPUS,
    OWN_NODES,
    Vocabulary,
    host_of,
)
from gpuwatch.link.stream.options import LinkOptions

DISCOVERY_S = 15.0
"""Time limit in seconds for all queries that find the nodes."""
LOOKED_BACK_S = 300.0
"""Seconds of samples from which the scrape interval is computed."""
MAX_NODES = 20_000
"""Most nodes: an exporter can state any number of names."""
LEAST_INTERVAL_S, MOST_INTERVAL_S, USUAL_INTERVAL_S = 1.0, 300.0, 30.0


def discover(url: str, selector: str, interval_s: float | None) -> tuple[Plan, LinkOptions]:
    """Return the plan of a Prometheus (its nodes and scrape interval), and the link options for it.

    Args:
        url: Of its API, without `/api/v1`; it may contain a user and password.
        selector: Label matchers, with or without braces.
        interval_s: Seconds between two scrapes; None: measured from recent scrapes.

    Raises:
        ReceiverError: the URL is invalid.
        PrometheusError: no answer, or it knows no node; the text names the server without secrets.
    """
    target = PrometheusTarget(http_url(url), selector.strip().strip("{}"))
    try:
        found = find(PrometheusClient(target, DISCOVERY_S))
    except PrometheusError as error:
        raise PrometheusError(f"{target.name}: {error}") from error
    nodes = tuple(NodeSpec(name=name, link="prometheus") for name in found.nodes)
    plan = Plan(nodes, interval_s or found.interval_s, discover=False, source=target.name)
    return plan, LinkOptions(prometheus=target)


class Found(Struct, frozen=True):
    """The nodes, exporters and scrape interval of a Prometheus."""

    gpus: Vocabulary | None
    nodes: tuple[str, ...]
    interval_s: float
    """Seconds between scrapes."""
    node_exporter: bool
    """True if host metrics come from node-exporter."""


def find(client: PrometheusClient) -> Found:
    """Return the nodes, the GPU exporter and the scrape interval of a Prometheus now.

    Raises:
        PrometheusError: There is no answer, or it knows no node.
    """
    target = client.target
    names = (OWN_GPUS, OWN_NODES, DCGM_GPUS, NODE_EXPORTER)
    counted = client.instant(f"count by (__name__) ({target.any_of(names)})")
    present = {each.metric.metric for each in counted}
    own = bool(present & {OWN_GPUS, OWN_NODES})
    if own:
        found = client.instant(f"group by (node) ({target.of(OWN_NODES)})")
        name_of = OWN.node_of
    elif DCGM_GPUS in present:
        found = client.instant(f"group by (Hostname, instance) ({target.of(DCGM_GPUS)})")
        name_of = DCGM.node_of
    else:
        found = client.instant(f"group by (nodename, instance) ({target.of(NODE_EXPORTER)})")
        name_of = _host_name
    nodes = sorted(_kept([(name_of(each.metric), each.metric.instance) for each in found]), key=_in_order)
    if not nodes:
        what = f" with {target.selector}" if target.selector else ""
        raise PrometheusError(
            f"no series{what} of gpuwatch exporter, dcgm-exporter or node-exporter (metric {DCGM_GPUS})"
        )
    metric = OWN_NODES if own else DCGM_GPUS if DCGM_GPUS in present else NODE_EXPORTER
    vocabulary = OWN if own else DCGM if DCGM_GPUS in present else None
    return Found(
        vocabulary,
        tuple(nodes),
        scrape_interval_s(client, metric, found[0].metric),
        not own and NODE_EXPORTER in present,
    )


def _host_name(labels: SeriesLabels) -> str:
    return label_text(labels.nodename or host_of(labels.instance))


def _kept(found: Sequence[tuple[str, str]]) -> Sequence[str]:
    """Return the names of nodes, at most `MAX_NODES`: first those of exporters that state few names.

    `found`: (name, exporter).
    """
    names = Counter(exporter for _, exporter in found)
    fewest: dict[str, int] = {}
    for name, exporter in found:
        if name:
            fewest[name] = min(names[exporter], fewest.get(name, names[exporter]))
    return sorted(fewest, key=lambda name: (fewest[name], name))[:MAX_NODES]


def scrape_interval_s(client: PrometheusClient, metric: str, labels: SeriesLabels) -> float:
    """Return the seconds between scrapes of a metric, from the recent samples of one series.

    It is the median, within limits; a default if there are fewer than two samples. `labels`: some labels of
    the series.
    """
    names = {"node": labels.node, "instance": labels.instance, "Hostname": labels.hostname}
    matchers = ",".join(f"{name}={json.dumps(value)}" for name, value in names.items() if value)
    found = client.raw(client.target.of(metric, matchers), LOOKED_BACK_S)
    times = [at for at, _ in found[0].values] if found else []
    gaps = [later - before for before, later in pairwise(times)]
    if not gaps:
        return USUAL_INTERVAL_S
    return min(MOST_INTERVAL_S, max(LEAST_INTERVAL_S, float(round(median(gaps)))))


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key for names that puts gpu-2 before gpu-10."""
    parts, digits = [], ""
    for char in name:
        if char.isdecimal():
            digits += char
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, char))
    return [*parts, (int(digits), "")] if digits else parts
