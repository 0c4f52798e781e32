"""The text that explains why a node or a GPU shows no values."""

from __future__ import annotations

from gpuwatch.fleet.nodes.node import Gpu, Node


def no_answer(gpu: Gpu, now: float) -> str:
    """Return a text like `no answer yet (nvmlDeviceGetUUID, 4 s)` for a GPU that has not answered.

    It has reported no values since the agent started.
    """
    waited = gpu.stuck_s(now)
    parts = [gpu.stuck_in or "", "" if waited is None else f"{waited:.0f} s"]
    reported = ", ".join(filter(None, parts))
    return f"no answer yet ({reported})" if reported else "no answer yet"


LOGS_ONLY = "logs_only"
"""The notice of a pod that may not be entered, and is followed by its logs."""
NO_HOST_VALUES = "no_host_values"
"""The notice of a node whose GPUs are in a Prometheus and whose host is not."""
UNREADABLE = frozenset(("driver_mismatch", "library_missing", "driver_not_loaded", "nvml_error", LOGS_ONLY))
"""Notices of a driver that does not work and lists no GPU, so that their number is unknown."""


def has_only_logs(node: Node) -> bool:
    """Return True if a node is a pod of which only the logs can be read."""
    return _reports(node, LOGS_ONLY)


def has_no_host_values(node: Node) -> bool:
    """Return True if a node never reports host values: a pod with logs only or without node-exporter."""
    return _reports(node, LOGS_ONLY) or _reports(node, NO_HOST_VALUES)


def _reports(node: Node, code: str) -> bool:
    return node.hello is not None and any(each.code == code for each in node.hello.notices)


def without_gpus(node: Node) -> str:
    """Return why a connected node shows no GPU; only a working driver can report that there is none."""
    if node.driver_starting is not None:
        return "GPUs not known yet"
    notices = node.hello.notices if node.hello is not None else ()
    return "no GPU can be read" if any(each.code in UNREADABLE for each in notices) else "no GPU"
