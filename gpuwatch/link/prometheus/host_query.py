"""Queries the hosts of a Prometheus, from gpuwatch's exporter or node-exporter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpuwatch.link.prometheus.client import InstantSeries, PrometheusClient
from gpuwatch.link.prometheus.exporter_choice import ExporterChoice
from gpuwatch.link.prometheus.series import host
from gpuwatch.link.prometheus.tier_values import Columns, built, label_text, number_of
from gpuwatch.link.prometheus.vocabularies import NODE_EXPORTER, host_of
from gpuwatch.wire import Disk, HostSample, IbPort, Nic

MAX_PORTS = 128
"""Most interfaces, ports and file systems (each) per node."""
RATE_S = 300
"""Seconds over which node-exporter's counters become rates: several scrapes of a minute."""
_VIRTUAL = "lo|veth.*|docker.*|cni.*|cali.*|flannel.*|br-.*|virbr.*|tap.*"
_NO_DISK = "tmpfs|ramfs|overlay|squashfs|devtmpfs|nsfs|autofs|proc|sysfs|cgroup.*|tracefs|fuse.lxcfs|iso9660"
_HOST = Columns(HostSample, host.HOST_SERIES)
_NIC, _IB, _DISK = (
    Columns(Nic, host.NIC_SERIES),
    Columns(IbPort, host.IB_SERIES),
    Columns(Disk, host.DISK_SERIES),
)
_NODE_EXPORTER = {
    "node_load1": "load_1m",
    "node_load5": "load_5m",
    "node_load15": "load_15m",
    "node_memory_MemTotal_bytes": "memory_total_bytes",
    "node_memory_SwapTotal_bytes": "swap_total_bytes",
}
"""Metric of node-exporter -> the field of host values that it fills."""


@dataclass
class QueriedHost:
    """One host of a Prometheus, with the results of the newest queries."""

    values: dict[str, Any] = field(default_factory=dict)
    nics: dict[str, dict[str, Any]] = field(default_factory=dict)
    ports: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    disks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sample(self, at: float) -> HostSample | None:
        """Return the host as a sample; None if there are no values, or invalid ones."""
        nics = _parts(Nic, [{"name": name, **each} for name, each in self.nics.items()])
        ports = [
            {"device": device, "port": int(port), **each}
            for (device, port), each in self.ports.items()
            if port.isdecimal() and len(port) < 5
        ]
        disks = _parts(Disk, [{"mount": mount, **each} for mount, each in self.disks.items()])
        if not (self.values or nics or ports or disks):
            return None
        known = {
            **self.values,
            "t": at,
            "nics": nics or None,
            "ib": _parts(IbPort, ports) or None,
            "disks": disks or None,
        }
        return built(HostSample, known)


def _parts(struct: type[msgspec.Struct], found: list[dict[str, Any]]) -> list[msgspec.Struct]:
    return [each for each in (built(struct, values) for values in found[:MAX_PORTS]) if each is not None]


class HostsQuery:
    """Queries the values of all hosts of a Prometheus at once."""

    def __init__(self, client: PrometheusClient, *, node_exporter: bool) -> None:
        self.client = client
        self.hosts: dict[str, QueriedHost] = {}
        self._node_exporter = node_exporter
        self._names: dict[str, str] = {}
        """Scrape target of node-exporter -> node."""
        self._exporters = ExporterChoice()

    def ask(self, known: Callable[[str], str | None]) -> None:
        """Query the values of all hosts again. `known`: maps a host name to a node of the plan, or None."""
        self.hosts = {}
        if self._node_exporter:
            self._ask_node_exporter(known)
        else:
            self._ask_own()

    def _host(self, name: str) -> QueriedHost:
        return self.hosts.setdefault(name, QueriedHost())

    def _ask_own(self) -> None:
        target = self.client.target
        more = (host.NIC_UP.name, host.IB_UP.name)
        metrics = [*_HOST.metrics, *_NIC.metrics, *_IB.metrics, *_DISK.metrics, *more]
        answers = self.client.instant(target.any_of(metrics))
        self._exporters.update((label_text(one.metric.node), one.metric.instance, 0.0) for one in answers)
        for each in answers:
            labels, text = each.metric, each.value[1]
            if not self._exporters.is_believed(label_text(labels.node), labels.instance):
                continue
            found = self._host(label_text(labels.node))
            if labels.mountpoint:
                _DISK.put(found.disks.setdefault(label_text(labels.mountpoint), {}), labels.metric, text)
            elif labels.port:
                values = found.ports.setdefault((label_text(labels.device), labels.port), {})
                _IB.put(values, labels.metric, text)
                if labels.metric == host.IB_UP.name:
                    values["state"] = "ACTIVE" if number_of(text) == 1 else "DOWN"
            elif labels.device:
                values = found.nics.setdefault(label_text(labels.device), {})
                _NIC.put(values, labels.metric, text)
                if labels.metric == host.NIC_UP.name:
                    values["state"] = "up" if number_of(text) == 1 else "down"
            else:
                _HOST.put(found.values, labels.metric, text)

    def _ask_node_exporter(self, known: Callable[[str], str | None]) -> None:
        target, ask = self.client.target, self.client.instant
        claims = []
        for each in ask(target.of(NODE_EXPORTER)):
            instance = each.metric.instance
            name = known(host_of(instance)) or known(each.metric.nodename)
            if name is not None:
                claims.append((name, instance, 0.0))
        self._exporters.update(claims)
        self._names = {
            exporter: name for name, exporter, _ in claims if self._exporters.is_believed(name, exporter)
        }
        for each in ask(target.any_of(list(_NODE_EXPORTER))):
            self._put(each, _NODE_EXPORTER.get(each.metric.metric, ""))
        memory, swap = target.of("node_memory_MemAvailable_bytes"), target.of("node_memory_SwapFree_bytes")
        for query, field_name in (
            (f"{target.of('node_memory_MemTotal_bytes')} - on (instance) {memory}", "memory_used_bytes"),
            (f"{target.of('node_memory_SwapTotal_bytes')} - on (instance) {swap}", "swap_used_bytes"),
        ):
            for each in ask(query):
                self._put(each, field_name)
        for mode, field_name in (('mode="idle"', "idle"), ('mode="iowait"', "iowait_pct")):
            rate = f"rate({target.of('node_cpu_seconds_total', mode)}[{RATE_S}s])"
            for each in ask(f"100 * avg by (instance) ({rate})"):
                self._put(each, field_name)
        self._ask_devices()
        for found in self.hosts.values():
            idle = found.values.pop("idle", None)
            if idle is not None:
                found.values["cpu_pct"] = min(100.0, max(0.0, 100.0 - idle))

    def _ask_devices(self) -> None:
        target, ask = self.client.target, self.client.instant
        physical = f'device!~"{_VIRTUAL}"'
        for metric, field_name in (
            ("node_network_receive_bytes_total", "rx_bps"),
            ("node_network_transmit_bytes_total", "tx_bps"),
        ):
            for each in ask(f"rate({target.of(metric, physical)}[{RATE_S}s])"):
                number = number_of(each.value[1])
                if (found := self._known(each)) is not None and number is not None:
                    found.nics.setdefault(label_text(each.metric.device), {})[field_name] = number
        sizes = target.of("node_filesystem_size_bytes", f'fstype!~"{_NO_DISK}"')
        free = target.of("node_filesystem_avail_bytes", f'fstype!~"{_NO_DISK}"')
        for query, field_name in ((sizes, "total_bytes"), (f"{sizes} - {free}", "used_bytes")):
            for each in ask(query):
                number = number_of(each.value[1])
                if (found := self._known(each)) is not None and number is not None:
                    found.disks.setdefault(label_text(each.metric.mountpoint), {})[field_name] = round(number)

    def _known(self, each: InstantSeries) -> QueriedHost | None:
        name = self._names.get(each.metric.instance)
        return None if name is None else self._host(name)

    def _put(self, each: InstantSeries, field_name: str) -> None:
        number, found = number_of(each.value[1]), self._known(each)
        if number is not None and found is not None and field_name:
            found.values[field_name] = round(number) if field_name.endswith("_bytes") else number
