"""Queries the GPUs of a Prometheus: inventory, tiers of values, states and Xids, by node."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.link.prometheus.client import InstantSeries, PrometheusClient, SeriesLabels
from gpuwatch.link.prometheus.exporter_choice import ExporterChoice
from gpuwatch.link.prometheus.series import dcgm, gpu, host
from gpuwatch.link.prometheus.tier_values import built, label_text, number_of
from gpuwatch.link.prometheus.vocabularies import DCGM, Vocabulary
from gpuwatch.wire import GpuFast, GpuInfo

MAX_GPUS = 1024
"""Most GPUs per node."""
MAX_KEYS = 200_000
MAX_TIME = 1e11
"""The latest accepted time in unix seconds, in the year 5138."""
MAX_REASONS = 16


@dataclass
class QueriedGpu:
    """A GPU of a Prometheus, with the results of the newest queries."""

    uuid: str
    index: int
    model: str = ""
    bus_id: str = ""
    memory_total_bytes: int | None = None
    slowdown_c: int | None = None
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Tier -> field -> value."""
    state: str = "ok"
    xid: tuple[int, float | None] | None = None
    """The newest Xid and its time (unix seconds; None: unknown)."""
    _info: tuple[dict[str, Any], GpuInfo | None] = field(default_factory=lambda: ({}, None))
    """The properties of the last call of `info`, and its result."""

    def info(self) -> GpuInfo | None:
        """Return the GPU's constant properties; None if a value is invalid."""
        known = {
            "uuid": self.uuid,
            "index": self.index,
            "name": self.model,
            "bus_id": self.bus_id or None,
            "memory_total_bytes": self.memory_total_bytes,
            "temperature_slowdown_c": self.slowdown_c,
        }
        if self._info[0] != known:
            self._info = known, built(GpuInfo, known)
        return self._info[1]


@dataclass
class QueriedNode:
    """The GPUs of one node by UUID, and the time of its last scrape (unix seconds of Prometheus's clock)."""

    gpus: dict[str, QueriedGpu] = field(default_factory=dict)
    scraped_at: float | None = None


class GpuQuery:
    """Queries the values of all GPUs of a Prometheus, with one query per tier for all nodes together.

    `nodes` has the results.
    """

    def __init__(self, client: PrometheusClient, vocabulary: Vocabulary, known: Collection[str]) -> None:
        """Create the query without querying. `known`: the nodes of the plan; others are left out."""
        self.client, self.words = client, vocabulary
        self.nodes: dict[str, QueriedNode] = {}
        self._known = frozenset(known)
        self._exporters = ExporterChoice()
        self._of_labels: dict[tuple[str, ...], QueriedGpu] = {}
        """Raw labels -> GPU; parsing them again would dominate the cost."""
        self._own = vocabulary is not DCGM

    def sources(self) -> None:
        """Query which exporters report each node and when they were scraped; call it before other queries."""
        words = self.words
        by = "node, instance" if self._own else "Hostname, instance"
        present = self.client.target.of(words.present)
        claims = []
        for each in self.client.instant(f"max by ({by}) (timestamp({present}))"):
            at = number_of(each.value[1])
            if at is not None:
                claims.append((words.node_of(each.metric), each.metric.instance, at))
        if self._exporters.update(claims):
            self._of_labels.clear()
        times = {name: at for name, exporter, at in claims if self._exporters.is_believed(name, exporter)}
        for name in self._known & times.keys():
            self.nodes.setdefault(name, QueriedNode())
        for name, node in self.nodes.items():
            node.scraped_at = times.get(name)

    def inventory(self) -> None:
        """Query the GPUs' constant properties: models, memory, slowdown temperatures.

        From an exporter other than gpuwatch's, only the slowdown temperatures.
        """
        target = self.client.target
        if self._own:
            for each in self.client.instant(target.of(gpu.GPU_INFO.name)):
                self._learn(each.metric)
            slowdown, size = gpu.SLOWDOWN.name, "gpuwatch_gpu_memory_size_bytes"
        else:
            slowdown, size = dcgm.SLOWDOWN_TEMP.family.name, ""
        for each in self.client.instant(target.any_of([slowdown, size] if size else [slowdown])):
            known, number = self._gpu(each.metric), number_of(each.value[1])
            if known is not None and number is not None and 0 <= number < 2**60:
                if each.metric.metric == slowdown:
                    known.slowdown_c = round(number)
                else:
                    known.memory_total_bytes = round(number)

    def _learn(self, labels: SeriesLabels) -> QueriedGpu | None:
        known = self._gpu(labels)
        if known is not None:
            known.model = label_text(labels.model or labels.name) or known.model
            known.bus_id = label_text(labels.pci_bus_id or labels.bus_id) or known.bus_id
        return known

    def _gpu(self, labels: SeriesLabels) -> QueriedGpu | None:
        """Return the GPU of a series, created if unseen; None if the labels name none."""
        key = (labels.node, labels.uuid, labels.hostname, labels.instance, labels.dcgm_uuid)
        found = self._of_labels.get(key)
        if found is None and (found := self._find(labels)) is not None and len(self._of_labels) < MAX_KEYS:
            self._of_labels[key] = found
        return found

    def is_known(self, labels: SeriesLabels) -> bool:
        """Return True if the labels name a GPU of a planned node, by the exporter chosen for that node."""
        return self._gpu(labels) is not None

    def _find(self, labels: SeriesLabels) -> QueriedGpu | None:
        name, uuid = self.words.node_of(labels), self.words.uuid_of(labels)
        if not name or not uuid:
            return None
        node = self.nodes.get(name)
        if node is None or not self._exporters.is_believed(name, labels.instance):
            return None
        known = node.gpus.get(uuid)
        if known is None:
            index = int(labels.gpu) if labels.gpu.isdecimal() and len(labels.gpu) < 5 else -1
            if not 0 <= index < MAX_GPUS or len(node.gpus) >= MAX_GPUS:
                return None
            known = node.gpus[uuid] = QueriedGpu(uuid, index)
            if not self._own:
                self._learn(labels)
        return known

    def tier(self, name: str) -> None:
        """Query one tier (fast, medium, slow) of all GPUs."""
        columns = self.words.columns[name]
        self._clear(name)
        metrics = [*columns.metrics, *self._more(name)]
        for each in self.client.instant(self.client.target.any_of(metrics)):
            known = self._gpu(each.metric)
            if known is not None:
                values = known.values.setdefault(name, {})
                if not columns.put(values, each.metric.metric, each.value[1]):
                    _put_more(values, each)
        for node in self.nodes.values():
            for known in node.gpus.values():
                _total_memory(known)

    def _more(self, tier: str) -> tuple[str, ...]:
        """Return the metrics of a tier that are no single values of `columns`; `_put_more` reads them."""
        if self._own:
            return {
                "fast": (gpu.THROTTLE.name,),
                "slow": (gpu.NVLINK_ERRORS.name, gpu.RECOVERY_ACTION.name),
            }.get(tier, ())
        counters = tuple(each.family.name for each in dcgm.NVLINK_COUNTERS.values())
        return {
            "fast": (dcgm.EVENT_REASONS.family.name, dcgm.FB_FREE.family.name),
            "slow": counters,
        }.get(tier, ())

    def _clear(self, tier: str) -> None:
        for node in self.nodes.values():
            for known in node.gpus.values():
                known.values.pop(tier, None)

    def moments(self) -> None:
        """Query the states of all GPUs and their newest Xids.

        A node that gpuwatch's exporter reports as lost counts as not scraped.
        """
        target, words = self.client.target, self.words
        if self._own:  # its exporter continues to report nodes that it has lost
            for each in self.client.instant(target.of(host.NODE_STATE.name, 'state="lost"')):
                name = words.node_of(each.metric)
                if name in self.nodes and self._exporters.is_believed(name, each.metric.instance):
                    self.nodes[name].scraped_at = None
        self._states()
        self._xids()

    def _states(self) -> None:
        """Set the state of each GPU to the one that gpuwatch's exporter reports, else to lost or ok.

        dcgm-exporter's series of a lost GPU end.
        """
        for node in self.nodes.values():
            for known in node.gpus.values():
                gone = not self._own and node.scraped_at is not None and not known.values.get("fast")
                known.state = "lost" if gone else "ok"
        if self._own:
            for each in self.client.instant(self.client.target.of(gpu.GPU_STATE.name, 'state!="ok"')):
                if (stated := self._gpu(each.metric)) is not None:
                    stated.state = each.metric.state

    def _xids(self) -> None:
        target = self.client.target
        metric = gpu.LAST_XID.name if self._own else dcgm.XID_ERRORS.family.name
        times: dict[int, float] = {}
        if self._own:
            for each in self.client.instant(target.of(gpu.LAST_XID_TIME.name)):
                stated, at = self._gpu(each.metric), number_of(each.value[1])
                if stated is not None and at is not None and 0 < at < MAX_TIME:
                    times[id(stated)] = at
        for each in self.client.instant(f"{target.of(metric)} != 0"):
            known, code = self._gpu(each.metric), number_of(each.value[1])
            if known is not None and code is not None and 0 < code < 100_000:
                known.xid = round(code), times.get(id(known))

    def fast_of(self, known: QueriedGpu, at: float) -> GpuFast | None:
        """Return the fast tier of a GPU; None if it has no values, or an invalid one."""
        values = known.values.get("fast")
        return built(GpuFast, {**values, "t": at}) if values and values.keys() != {"free_bytes"} else None


def _put_more(values: dict[str, Any], each: InstantSeries) -> None:
    metric, number = each.metric.metric, number_of(each.value[1])
    if number is None:
        return
    if metric == gpu.THROTTLE.name:
        _put_in(values, "throttle_pct", label_text(each.metric.reason), 100 * number)
    elif metric == gpu.NVLINK_ERRORS.name:
        _put_in(values, "nvlink_errors", label_text(each.metric.kind), round(number))
    elif metric == gpu.RECOVERY_ACTION.name:
        values["recovery_action"] = label_text(each.metric.action)
    elif metric == dcgm.EVENT_REASONS.family.name and 0 <= number < 2**63:
        bits = int(number)
        values["throttle"] = [reason for reason, bit in dcgm.REASON_BITS.items() if bits & bit]
    elif metric == dcgm.FB_FREE.family.name:
        values["free_bytes"] = round(dcgm.FB_FREE.read(number))
    else:
        for kind, series in dcgm.NVLINK_COUNTERS.items():
            if metric == series.family.name:
                _put_in(values, "nvlink_errors", kind, round(number))


def _put_in(values: dict[str, Any], field_name: str, name: str, value: float) -> None:
    table = values.setdefault(field_name, {})
    if len(table) < MAX_REASONS:
        table[name] = value


def _total_memory(known: QueriedGpu) -> None:
    """Set a GPU's total memory, if it is not reported, to the sum of used, free and reserved memory.

    dcgm-exporter gives used, free and sometimes reserved memory. The sum is also stored as a constant
    property of the GPU, once.
    """
    fast = known.values.get("fast", {})
    free, used = fast.get("free_bytes"), fast.get("memory_used_bytes")
    if "memory_total_bytes" not in fast and used is not None and free is not None:
        fast["memory_total_bytes"] = used + free + (fast.get("memory_reserved_bytes") or 0)
    if known.memory_total_bytes is None:
        known.memory_total_bytes = fast.get("memory_total_bytes")
