"""The coverage of the logs, which shows how much the absence of an incident means."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.diagnose.model.text import job_text, ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_coverage import unlogged, unranked
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import plural
from gpuwatch.wire import KERNEL_LOG

TOO_MANY = "more log files than gpuwatch follows on one node; narrow `logs` in the hosts file"


class Watching(Struct, frozen=True):
    """The coverage of the logs: what is read, in numbers of files and nodes; what is not read, by name."""

    files: int
    """Number of followed log files, without kernel logs."""
    nodes: int
    """Number of nodes with at least one log file that is followed, there or on another node."""
    all_nodes: int
    kernels: int
    """Number of nodes whose kernel log is read."""
    rules: int
    backlog: int
    """Number of files whose existing content is still being read."""
    silent: tuple[str, ...]
    """Nodes that have connected and of which no log file is followed."""
    unlogged: tuple[str, ...]
    """Ranks whose logs are not followed, by job."""
    unranked: tuple[str, ...]
    """The processes that write training logs and whose ranks are unknown, by node."""
    unreadable: tuple[tuple[str, tuple[str, ...]], ...]
    """(reason, affected files or nodes)."""


def watching(fleet: Fleet, packs: RulePacks) -> Watching:
    """Return the coverage of the fleet's logs: which are read, and which cannot be."""
    files = nodes = kernels = backlog = 0
    silent: list[str] = []
    unreadable: dict[str, list[str]] = defaultdict(list)
    for node in fleet.nodes.values():
        own = [each for each in node.logs if each.path != KERNEL_LOG]
        read = [each for each in own if each.state in ("following", "elsewhere")]
        files += sum(each.state == "following" for each in own)
        nodes += bool(read)
        kernels += _kernel_is_read(node)
        backlog += sum(each.backlog_pct is not None for each in read)
        if node.hello is not None and not read:
            silent.append(node.name)
        if node.link.phase == "lost":
            unreadable["not connected, logs not read"].append(node.name)
        if node.logs_truncated:
            unreadable[TOO_MANY].append(f"{node.name} {plural(node.logs_truncated, 'file')}")
        for each in node.logs:
            if each.state == "unreadable":
                unreadable[each.reason or "cannot be read"].append(f"{node.name} {each.path}")
    found = tuple((why, tuple(names)) for why, names in sorted(unreadable.items()))
    without = tuple(
        f"{ranks_text(each.ranks)} ({job_text(each.job)})" for each in unlogged(fleet.nodes.values())
    )
    unranked_texts = tuple(each.text for each in unranked(fleet.nodes.values()))
    counts = files, nodes, len(fleet.nodes), kernels, len(packs.by_id), backlog
    return Watching(*counts, tuple(silent), without, unranked_texts, found)


def _kernel_is_read(node: Node) -> bool:
    listed = any(each.path == KERNEL_LOG and each.state == "following" for each in node.logs)
    return listed or (node.hello is not None and node.hello.kernel_log is not None)
