"""The report of a node about itself, for comparison with what lines elsewhere claim about the node."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node


class NodeReport(Struct, frozen=True):
    """What a node's own agent reports of it: process list, log files, jobs, whether it is live, boot time."""

    processes_at: float | None = None
    """When the node last listed its processes, unix seconds on our clock."""
    read: frozenset[str] = frozenset()
    """Log files on the node's own disks that its agent follows; empty while the link is lost."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Log file that other nodes see too -> its identity, which is the same on all nodes."""
    jobs: frozenset[str | None] = frozenset()
    """Jobs of the node's processes, launchers included."""
    is_live: bool = False
    """True if the link to the node is up and its newest frame is on time."""
    booted_at: float | None = None
    """When the node booted, unix seconds on our clock."""


def node_reports(fleet: Fleet, now: float, wall: float) -> dict[str, NodeReport]:
    """Return node -> its report. `now`: the fleet's monotonic clock; `wall`: unix seconds."""
    return {
        name: NodeReport(
            None if node.processes_at is None else wall - (now - node.processes_at),
            frozenset(
                f.path
                for f in node.logs
                if f.state == "following" and f.identity is None and node.link.phase == "live"
            ),
            {file.path: file.identity for file in node.logs if file.identity is not None},
            frozenset(each.job for each in node.processes if each.rank is not None or each.job is not None),
            node.state(now) == "live",
            _booted_at(node),
        )
        for name, node in fleet.nodes.items()
    }


def _booted_at(node: Node) -> float | None:
    if node.hello is None or node.hello.booted_at is None:
        return None
    return node.hello.booted_at - node.offset_s


def shared_files(alert: Alert, reports: Mapping[str, NodeReport]) -> set[str]:
    """Return the identities of an alert's files that several nodes see."""
    seen = (
        reports[p.node].shared.get(p.file or "")
        for p in alert.proof
        if p.node is not None and p.node in reports
    )
    return {identity for identity in seen if identity is not None}
