"""Metrics of nodes, ports and file systems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from gpuwatch.fleet.nodes.node import STALE_TICKS, Node
from gpuwatch.link.prometheus.series import host as series
from gpuwatch.link.prometheus.series.tier_series import TierSeries
from gpuwatch.report.exporter.page import MetricsPage, label, labels

_T = TypeVar("_T")
HOST_FRESH_S = 15.0
"""Age in seconds up to which a host sample counts (or three ticks, if longer)."""
DISKS_FRESH_S = 120.0
"""Age in seconds up to which file systems count; they are read every 30 s."""
MAX_PORTS = 128
"""Maximum number of interfaces, of ports and of file systems per node; container hosts have many veths."""


def node_metrics(page: MetricsPage, node: Node, now: float, offset_s: float) -> None:
    """Add all samples of a node except its GPUs'; of a lost one, none of its host.

    `offset_s`: unix seconds minus `now` (monotonic).
    """
    own, state = label("node", node.name), node.state(now)
    page.put(series.NODE_UP, own, int(state == "live"))
    page.put(series.NODE_STATE, f'{own},state="{state}"', 1)
    page.put(series.RECEIVED, own, _moment(node.received_at, offset_s))
    page.put(series.HOST_SAMPLED, own, _moment(node.host_at, offset_s))
    if node.clock is not None:
        page.put(series.CLOCK_OFFSET, own, node.clock.offset_s)
        page.put(series.CLOCK_ERROR, own, node.clock.error_s)
    page.put(series.REFUSED, own, node.refused)
    if (hello := node.hello) is not None:
        page.put(series.EXPECTED, own, node.gpus_expected())
        page.put(series.PRESENT, own, node.gpus_present())
        page.put(series.BOOTED, own, hello.booted_at)
        about = {"hostname": hello.host, "os": hello.os, "kernel": hello.kernel}
        about |= {"driver": hello.driver, "cuda": hello.cuda, "agent": hello.agent}
        page.put(series.NODE_INFO, f"{own},{labels(about)}", 1)
    if state == "lost":
        return
    if node.cost is not None:
        _put_all(page, series.COST_SERIES, node.cost, own)
    fresh_s = max(HOST_FRESH_S, STALE_TICKS * node.interval_s)
    if node.host is not None and node.host_at is not None and now - node.host_at <= fresh_s:
        _put_all(page, series.HOST_SERIES, node.host, own)
        _ports(page, node, own)
    if node.host is not None and node.disks_at is not None and now - node.disks_at <= DISKS_FRESH_S:
        for disk in _bounded(page, node.host.disks or ()):
            of_disk = f"{own},{label('mountpoint', disk.mount)}"
            if page.is_new("disk", of_disk):
                _put_all(page, series.DISK_SERIES, disk, of_disk)


def _ports(page: MetricsPage, node: Node, own: str) -> None:
    if node.host is None:
        return
    for nic in _bounded(page, node.host.nics or ()):
        of_nic = f"{own},{label('device', nic.name)}"
        if not page.is_new("nic", of_nic):
            continue
        _put_all(page, series.NIC_SERIES, nic, of_nic)
        if nic.state is not None:
            page.put(series.NIC_UP, of_nic, int(nic.state.lower() == "up"))
    for port in _bounded(page, node.host.ib or ()):
        of_port = f"{own},{labels({'device': port.device, 'port': port.port})}"
        if not page.is_new("port", of_port):
            continue
        _put_all(page, series.IB_SERIES, port, of_port)
        if port.state is not None:
            page.put(series.IB_UP, of_port, int(port.state.upper() == "ACTIVE"))
        for counter, count in _bounded(page, (port.errors or {}).items()):
            page.put(series.IB_ERRORS, f"{of_port},{label('counter', counter)}", count)


def _put_all(page: MetricsPage, columns: tuple[TierSeries, ...], values: object, own: str) -> None:
    for column in columns:
        value = getattr(values, column.field)
        if value is not None:
            page.put(column.family, own, column.exported(value))


def _bounded(page: MetricsPage, found: Iterable[_T]) -> list[_T]:
    """Return the first `MAX_PORTS` items; count the rest as dropped."""
    listed = list(found)
    page.dropped += max(0, len(listed) - MAX_PORTS)
    return listed[:MAX_PORTS]


def _moment(at: float | None, offset_s: float) -> float | None:
    return None if at is None else round(at + offset_s, 3)
