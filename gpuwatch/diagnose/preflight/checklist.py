"""The complete checklist for the current facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from statistics import median

from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.health.conditions import gpu_conditions, node_conditions
from gpuwatch.diagnose.health.peer_comparison import peer_conditions
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.preflight.check import Check, PreflightData, PreflightRank, skipped
from gpuwatch.diagnose.preflight.hardware import hardware
from gpuwatch.diagnose.preflight.job import job
from gpuwatch.diagnose.preflight.software import software
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import STARTING, Node
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.number_text import duration
from gpuwatch.wire import NOT_RECORDED, NodeSettings

RECENT_STEPS = 20
STEPPED_S = 600.0
"""Seconds; a rank that logged no step for this long has no current step time."""
FROM_SETTINGS = ("net.", "versions.", "host.shm", "limits.", "env.", "gpu.fabric")
"""Prefixes of checks that need the nodes' answers to the settings request; skipped without them."""


def checklist(
    fleet: Fleet,
    reported: Mapping[str, NodeSettings],
    alerts: Iterable[Alert],
    incidents: Iterable[Incident],
    clock: SessionClock,
    *,
    recorded: bool = False,
) -> list[Check]:
    """Return all checks, those of the job first.

    Args:
        fleet: All that is known.
        reported: Node -> its answer to the request for the settings of its ranks.
        alerts: The alerts of the session.
        incidents: The incidents of the session.
        clock: The clock of the session.
        recorded: True for the nodes of a recording, which answer only what they were asked then.
    """
    now, wall = clock.monotonic(), clock.wall()
    live = [node for node in fleet.nodes.values() if answers(node, now)]
    silent = {node.name: why(node, now) for node in fleet.nodes.values() if not answers(node, now)}
    conditions = [
        (node.name, each)
        for node in live
        for each in conditions_of(node, fleet.plan.thresholds, now)
        if each.code != STARTING  # the checklist counts it at every age
    ]
    ranks = [rank for node in live for rank in ranks_of(node, reported.get(node.name))]
    case = PreflightData(
        live,
        silent,
        reported,
        conditions,
        ranks,
        tuple(alerts),
        tuple(incidents),
        fleet.plan.thresholds.hang_s,
        now,
        wall,
        step_times(fleet, now),
        recorded,
    )
    checks = [*job(case), *software(case), *hardware(case)]
    return [_unanswered(check) for check in checks] if recorded and not reported else checks


def step_times(fleet: Fleet, now: float) -> dict[tuple[str, int], float]:
    """Return (node, pid) of a rank -> median duration of its recently logged steps in seconds."""
    placement = RankPlacement()
    placement.refresh(fleet)
    found = {}
    for writer in fleet.progress.writers.values():
        _job, placed = placement.of(writer)
        took = writer.step_times(RECENT_STEPS)
        if placed is not None and took and now - (writer.stepped_at or -inf) <= STEPPED_S:
            found[placed.node, placed.pid] = median(took)
    return found


def _unanswered(check: Check) -> Check:
    """Return the check; one that is skipped for lack of answers gets the text for recordings."""
    asks = check.status == "SKIP" and check.id.startswith(FROM_SETTINGS)
    return skipped(check.id, NOT_RECORDED) if asks else check


def conditions_of(node: Node, thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield the conditions of a node and of its GPUs."""
    yield from node_conditions(node, thresholds, now)
    for gpu in node.gpu_list():
        yield from gpu_conditions(gpu, node, thresholds, now)
    yield from peer_conditions(node, thresholds, now)


def answers(node: Node, now: float) -> bool:
    """Return True if a node is live and has sent its hello."""
    return node.state(now) == "live" and node.hello is not None


def why(node: Node, now: float) -> str:
    """Return why a node does not answer, as text."""
    if node.state(now) == "live":
        return "no answer from the agent yet"
    if (age := node.age(now)) is not None:
        return node.link.reason or node.bye or f"it last answered {duration(age)} ago"
    return node.link.reason or node.bye or "no answer yet"


def ranks_of(node: Node, reported: NodeSettings | None) -> list[PreflightRank]:
    """Return the ranks of a node, each by its lowest pid (data loaders inherit the environment)."""
    by_pid = {} if reported is None else {one.pid: one for one in reported.ranks}
    found: dict[tuple[str, int], PreflightRank] = {}
    for process in sorted(node.processes, key=lambda process: process.pid):
        if process.rank is not None:
            rank = PreflightRank(node.name, process.rank, process, by_pid.get(process.pid))
            found.setdefault((rank.job, rank.number), rank)
    return list(found.values())
