"""Metrics of GPUs. A value older than three periods of its tier is unknown, and thus absent."""

from __future__ import annotations

from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.link.prometheus.series import dcgm
from gpuwatch.link.prometheus.series import gpu as series
from gpuwatch.report.exporter.page import MetricsPage, labels

MAX_REASONS = 16
"""Maximum number of throttle reasons, and of kinds of errors, per GPU; NVML has nine."""


def gpu_metrics(page: MetricsPage, node: Node, gpu: Gpu, now: float, offset_s: float) -> None:
    """Add all samples of one GPU once; of a lost one, no values.

    Args:
        page: The page to which they are added.
        node: The node of the GPU.
        gpu: The GPU.
        now: Monotonic seconds.
        offset_s: Unix seconds minus monotonic seconds.
    """
    info = gpu.info
    own = labels({"node": node.name, "gpu": info.index, "uuid": info.uuid})
    if not page.is_new("gpu", own):
        return
    lost = gpu.state == "lost" or node.state(now) == "lost"
    tiers = gpu.of_late(node.interval_s, now)._asdict() if not lost else {}
    page.put(series.GPU_UP, own, int(gpu.state == "ok" and tiers.get("fast") is not None))
    page.put(series.GPU_STATE, f'{own},state="{gpu.state}"', 1)
    page.put(series.STUCK, own, gpu.stuck_s(now))
    for tier, columns in series.TIERS:
        at = getattr(gpu, f"{tier}_at")
        if at is not None:
            page.put(series.SAMPLED, f'{own},tier="{tier}"', round(at + offset_s, 3))
        values = tiers.get(tier)
        if values is not None:
            for column in columns:
                value = getattr(values, column.field)
                if value is not None:
                    page.put(column.family, own, column.exported(value))
    _by_name(page, gpu, own, tiers)
    _events(page, node, gpu, own)
    page.put(series.SLOWDOWN, own, info.temperature_slowdown_c)
    page.put(series.GPU_INFO, f"{own},{labels({'name': info.name, 'bus_id': info.bus_id})}", 1)


def _by_name(page: MetricsPage, gpu: Gpu, own: str, tiers: dict[str, object]) -> None:
    """Add values with a name label: recovery action, first throttle reasons and kinds of NVLink errors."""
    if tiers.get("fast") is not None and gpu.fast is not None:
        for reason, share in list((gpu.fast.throttle_pct or {}).items())[:MAX_REASONS]:
            page.put(series.THROTTLE, f"{own},{labels({'reason': reason})}", share / 100)
        for reason in dict.fromkeys((gpu.fast.throttle or [])[:MAX_REASONS]):
            page.put(series.CLOCK_EVENT, f"{own},{labels({'reason': reason})}", 1)
    if tiers.get("slow") is not None and gpu.slow is not None:
        for kind, count in list((gpu.slow.nvlink_errors or {}).items())[:MAX_REASONS]:
            page.put(series.NVLINK_ERRORS, f"{own},{labels({'kind': kind})}", count)
        if gpu.slow.recovery_action is not None:
            page.put(series.RECOVERY_ACTION, f"{own},{labels({'action': gpu.slow.recovery_action})}", 1)


def _events(page: MetricsPage, node: Node, gpu: Gpu, own: str) -> None:
    last = last_xid(node, gpu)
    if last is not None:
        page.put(series.LAST_XID, own, last[0])
        page.put(series.LAST_XID_TIME, own, round(last[1], 3))


def last_xid(node: Node, gpu: Gpu) -> tuple[int, float] | None:
    """Return the code of a GPU's newest Xid and its time (unix seconds on our clock), or None."""
    xids = [each for each in node.events if each.event == "xid" and each.gpu == gpu.info.uuid]
    newest = max(xids, key=lambda each: each.t, default=None)
    return None if newest is None or newest.code is None else (newest.code, newest.t - node.offset_s)


def dcgm_metrics(page: MetricsPage, node: Node, gpu: Gpu, now: float) -> None:
    """Add the samples of a GPU under the names and labels of dcgm-exporter; of a lost one, only its Xid."""
    info, host = gpu.info, node.name if node.hello is None else node.hello.host
    own = labels(
        {
            "gpu": info.index,
            "UUID": info.uuid,
            "pci_bus_id": info.bus_id,
            "device": f"nvidia{info.index}",
            "modelName": info.name,
            "Hostname": host,
            "DCGM_FI_DRIVER_VERSION": None if node.hello is None else node.hello.driver,
        }
    )
    if not page.is_new("dcgm", own):
        return
    last = last_xid(node, gpu)
    page.put(dcgm.XID_ERRORS.family, own, None if last is None else last[0])
    if gpu.state == "lost" or node.state(now) == "lost":
        return
    tiers = gpu.of_late(node.interval_s, now)
    for tier, columns in dcgm.DCGM_TIERS:
        values = getattr(tiers, tier)
        for column in columns if values is not None else ():
            value = getattr(values, column.field)
            if value is not None:
                page.put(column.family, own, column.exported(value))
    fast, slow = tiers.fast, tiers.slow
    if fast is not None:
        used, total = fast.memory_used_bytes, fast.memory_total_bytes
        if used is not None and total is not None:
            page.put(
                dcgm.FB_FREE.family,
                own,
                dcgm.FB_FREE.exported(total - used - (fast.memory_reserved_bytes or 0)),
            )
        if fast.throttle is not None:
            page.put(
                dcgm.EVENT_REASONS.family, own, sum({dcgm.REASON_BITS.get(each, 0) for each in fast.throttle})
            )
    if slow is not None:
        for kind, column in dcgm.NVLINK_COUNTERS.items():
            page.put(column.family, own, (slow.nvlink_errors or {}).get(kind))
    page.put(dcgm.SLOWDOWN_TEMP.family, own, info.temperature_slowdown_c)
