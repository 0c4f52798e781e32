"""The line above a node: its name, state, GPUs, software and clock, and the agent's cost."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.nodes.missing_text import without_gpus
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.nodes.units import MEMORY
from gpuwatch.number_text import plural, seconds_text
from gpuwatch.tui.chrome.status_bar import spread
from gpuwatch.tui.model.log_folder import NOT_IN_LOGS
from gpuwatch.tui.model.node_summary import STATE_SEVERITY, NodeView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.toolkit.text import ended_on_node_text, models

CLOCK_DOUBT_S = 1.0


def software(node: Node) -> str:
    """Return the versions of driver and CUDA as text; "" before the node has answered."""
    hello = node.hello
    if hello is None:
        return ""
    parts = [("driver", hello.driver), ("CUDA", hello.cuda)]
    return "  ".join(f"{word} {clean(value)}" for word, value in parts if value)


def clock_text(node: Node) -> str:
    """Return the offset of the node's clock from ours as text; "" if unknown."""
    if node.clock is None:
        return ""
    offset, error = node.clock.offset_s, node.clock.error_s
    return (
        f"clock {offset * 1000:+.0f} ms (+-{error * 1000:.0f})"
        if abs(offset) < CLOCK_DOUBT_S
        else f"clock {offset:+.1f} s off"
    )


def cost_text(node: Node) -> str:
    """Return the CPU and memory use of the agent as text; "" if unknown."""
    if node.cost is None or node.cost.cpu_pct is None:
        return ""
    memory = "" if node.cost.rss_bytes is None else f" {MEMORY.format(node.cost.rss_bytes).strip()}"
    dropped = f" {node.cost.dropped} dropped" if node.cost.dropped else ""
    return f"agent {node.cost.cpu_pct:.1f}% CPU{memory}{dropped}"


def header(view: NodeView, width: int, look: StyleSet, now: float) -> Row:
    """Return the node's header line; facts on the right that do not fit are left out."""
    node = view.node
    state = "unreachable" if view.never_reached else view.state
    left = [
        Segment(f" {clean(view.name)} ", look.brand),
        Segment(" "),
        look.mark(view.severity),
        Segment(f" {state}", look.severity[STATE_SEVERITY[view.state]]),
    ]
    age = node.age(now)
    if view.state in ("stale", "lost") and age is not None:
        left.append(Segment(f" for {seconds_text(age)}", look.severity["warning"]))
    if node.link.phase == "live" and node.link.reason and view.state == "live":
        reason = fit(clean(node.link.reason), min(len(node.link.reason), max(12, width // 2)))
        left.append(Segment(f"  {reason}", look.severity["warning"]))
    left.append(Segment("  "))
    present = view.ok + view.stuck
    if view.gpus and present < view.expected:
        left.append(Segment(f"{present} of {view.expected} GPUs  ", look.severity["critical"]))
    unanswered = "" if view.never_reached else "connecting"  # the reason stands whole below
    kinds = clean((models(node) or without_gpus(node)) if node.hello else unanswered)
    left.append(Segment(fit(kinds, max(8, min(cell_len(kinds), width - 30))) + "  "))
    if ended := ended_on_node_text(node, now):
        left.append(Segment(f"{ended}  ", look.dim))
    right: list[Segment] = []
    used = sum(s.cell_length for s in left)
    for text in (
        software(node),
        f"age {seconds_text(age)}" if age is not None else "",
        "" if node.standing is None else f"{node.standing.scheduler} {clean(node.standing.state)}",
        cost_text(node),
        clock_text(node),
    ):
        if text and used + len(text) + 2 <= width:
            right.append(Segment(text + "  ", look.dim))
            used += len(text) + 2
    return spread(left, right, width)


def header_of_logs(view: NodeView, severity: Severity, width: int, look: StyleSet) -> Row:
    """Return the line for a folder of logs, where the state of the node is unknown."""
    files = plural(len(view.node.logs), "file")
    ranks = sorted(view.node.ranks_of_logs)
    parts = (ranks_text(ranks) if ranks else "", files, f"node state: {NOT_IN_LOGS}")
    text = ", ".join(part for part in parts if part)
    left = [Segment(f" {clean(view.name)} ", look.brand), Segment(" "), look.mark(severity), Segment(" ")]
    return (*left, Segment(fit(text, max(0, width - sum(each.cell_length for each in left)))))


class NodeHeader(RebuiltPage, can_focus=False):
    """The line above a node's panes: its name, state, GPUs, software and clock, and the agent's cost."""

    in_first_frame = True
    DEFAULT_CSS: ClassVar[str] = "NodeHeader { height: 1; background: $surface; overflow-y: hidden; }"

    def __init__(self, name: str) -> None:
        super().__init__(id="node-header")
        self.node_name = name

    def build(self, width: int) -> list[Row]:
        view = self.cockpit.overview.views.get(self.node_name)
        if view is None:
            return []
        if self.view_state.folder is not None:
            alert = self.view_state.snapshot.worst_by_node().get(view.name)
            return [header_of_logs(view, alert.severity if alert else "ok", width, self.look)]
        return [header(view, width, self.look, self.view_state.now)]
