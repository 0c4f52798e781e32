"""Lists the conditions that contradict a healthy fleet."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.agent.logs.discovery.finder import NOTHING
from gpuwatch.diagnose.health.conditions import gpu_conditions, node_conditions
from gpuwatch.diagnose.missing_ranks.listed_ranks import ListedRanks, Running
from gpuwatch.diagnose.missing_ranks.missing import MissingRank, missing_ranks
from gpuwatch.diagnose.missing_ranks.unreaped import has_failed, unreaped_ranks
from gpuwatch.diagnose.missing_ranks.vanished import how_ended
from gpuwatch.diagnose.missing_ranks.waiting_watch import waiting_ranks
from gpuwatch.diagnose.model.condition import ORDER, Condition, Evidence
from gpuwatch.diagnose.model.text import job_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.wire import Severity


class PlacedCondition(Struct, frozen=True):
    """A condition, and the node or GPU that it is about."""

    node: Node
    gpu: Gpu | None
    condition: Condition

    @property
    def place(self) -> str:
        """`node` or `node GPU 3`."""
        return self.node.name if self.gpu is None else f"{self.node.name} GPU {self.gpu.info.index}"


def placed_conditions(fleet: Fleet, now: float) -> list[PlacedCondition]:
    """Return every current condition, most severe first, then in plan order."""
    thresholds = fleet.plan.thresholds
    found: list[PlacedCondition] = []
    for node in fleet.nodes.values():
        found += [PlacedCondition(node, None, condition) for condition in unanswered(node, now)]
        found += [
            PlacedCondition(node, None, condition) for condition in node_conditions(node, thresholds, now)
        ]
        for gpu in node.gpu_list():
            found += [
                PlacedCondition(node, gpu, condition)
                for condition in gpu_conditions(gpu, node, thresholds, now)
            ]
    running = ListedRanks().update(fleet.nodes.values())
    missing = missing_ranks(fleet, now, running)
    found += [PlacedCondition(each.node, None, _missing(each)) for each in missing]
    named = {(each.job, each.rank) for each in missing}
    found += [
        PlacedCondition(each.node, None, _unreaped(running, each))
        for each in unreaped_ranks(fleet, now, running)
        if (each.job, each.rank) not in named
    ]
    for each in waiting_ranks(fleet, now):
        seen = Evidence(f"{each.present} of {each.world_size} ranks were found")
        condition = Condition(
            each.code.replace(".", "_"), "warning", f"{each.text} ({job_text(each.job)})", seen
        )
        found.append(PlacedCondition(each.node, None, condition))
    return sorted(found, key=lambda placed: ORDER.index(placed.condition.severity))


def _missing(one: MissingRank) -> Condition:
    ended = "" if one.last_line is None else f", its log ended with: {one.last_line}"
    how = how_ended(one.node, one.job, one.rank)
    text = f"rank {one.rank} of {one.world_size} is missing: {how}{ended}"
    return Condition(
        "rank_missing", "error", f"{text} ({job_text(one.job)})", Evidence("its siblings are running")
    )


def _unreaped(running: Running, one: MissingRank) -> Condition:
    """Return the condition of a rank whose process has ended and is still listed: an error if it failed."""
    text = f"rank {one.rank} {how_ended(one.node, one.job, one.rank)} ({job_text(one.job)})"
    severity: Severity = "error" if has_failed(running, one) else "warning"
    return Condition("rank_missing", severity, text, Evidence("its parent has not reaped the process"))


def unanswered(node: Node, now: float) -> list[Condition]:
    """Return the condition of a node that has not answered yet; empty for others.

    A screen may show a node as connecting; a report must list it as unknown.
    """
    if node.state(now) != "connecting":
        return []
    since = None if node.link_at is None else round(max(0.0, now - node.link_at), 1)
    evidence = Evidence("connecting for", since, " s") if since is not None else Evidence("not tried yet")
    return [Condition("node_unanswered", "warning", "no answer yet", evidence)]


def without_log(fleet: Fleet) -> dict[str, str]:
    """Return each `--log` pattern that matches no file -> the most specific reason of a node.

    Only nodes that have listed their logs count; without any, no pattern matches.
    """
    nodes = [node for node in fleet.nodes.values() if node.logs_complete]
    found = {}
    for option in fleet.plan.log_options:
        reasons = [node.log_misses[option] for node in nodes if option in node.log_misses]
        if len(reasons) == len(nodes):
            found[option] = max(reasons, key=lambda why: why != NOTHING, default="no node has searched")
    return found
