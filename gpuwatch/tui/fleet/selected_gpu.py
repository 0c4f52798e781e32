"""The GPU under the cursor of the heat map: the line with its values, and its plots."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.nodes import units
from gpuwatch.fleet.nodes.metrics import METRICS, power_text
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.number_text import seconds_text
from gpuwatch.tui.fleet.heat_map import HeatMap
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.node.gpu_plots import GpuPlotsPage
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.toolkit.text import (
    ended_on_node_text,
    link_words,
    memory_of,
    rank_text,
    trouble_of,
    trouble_severity,
)

POWER_COLUMNS, AGE_COLUMNS = 8, 4
"""Widths of `655/700W` and of an age: with fixed widths, the values behind them do not move."""


def facts(gpu: Gpu, node: Node, now: float) -> list[tuple[str, str]]:
    """Return the (label, value) pairs of a GPU, the most important first; empty values are left out."""
    fast = gpu.fast
    rank = rank_text(node, gpu, now)[0]
    found = [
        ("rank", rank),
        ("util", METRICS["util"].format(METRICS["util"].read(gpu, now))),
        ("mem", memory_of(gpu)),
        ("", f"{power_text(gpu, 0.0):>{POWER_COLUMNS}}"),
        ("", METRICS["temp"].format(METRICS["temp"].read(gpu, now))),
        ("age", "never read" if (age := gpu.age(now)) is None else f"{seconds_text(age):>{AGE_COLUMNS}}"),
        ("tensor", METRICS["tensor"].format(METRICS["tensor"].read(gpu, now))),
        ("SM", f"{METRICS['smclk'].format(METRICS['smclk'].read(gpu, now)).strip()} MHz"),
        (
            "throttle",
            ", ".join(r for r in (fast.throttle or []) if r not in ("idle", "app_clocks")) if fast else "",
        ),
        ("", gpu.info.name),
    ]
    return [(word, value) for word, value in found if value]


def _without_gpus(view: NodeView, now: float, opens: str) -> str:
    if view.node.hello is None:
        return link_words(view.node, now) or "connecting"
    running = sorted({each.rank for each in view.node.processes if each.rank is not None})
    parts = (ranks_text(running) if running else "", ended_on_node_text(view.node, now))
    ranks = "; ".join(part for part in parts if part)
    if ranks:
        return f"{ranks}   no NVIDIA GPU; {opens}: host metrics"
    return f"no NVIDIA GPU on this node; host metrics only ({opens} shows them)"


def line_for_node(view: NodeView, now: float, width: int, look: StyleSet) -> Row:
    """Return the line for the selected node of a folded fleet: trouble first, then the values that fit."""
    parts = [Segment(f" {clean(view.name)} ", look.strong)]
    if view.state != "live":
        words = link_words(view.node, now) or view.state
        parts.append(Segment(f" {clean(fit(words, max(1, width // 2)))} ", look.badge[view.severity]))
    elif view.trouble:
        parts.append(Segment(f" {clean(fit(view.trouble, width // 2).strip())} ", look.badge[view.severity]))
    values = (
        ("GPUs", f"{view.node.gpus_present()}/{view.expected}"),
        ("util", units.PERCENT.format(view.util_mean).strip()),
        ("mem", units.PERCENT.format(view.memory_pct).strip()),
        ("power", units.WATTS.format(view.power_w).strip()),
        ("max T", units.CELSIUS.format(view.temperature_max).strip()),
        ("age", units.SECONDS.format(view.node.age(now)).strip()),
    )
    for word, value in values:
        if sum(p.cell_length for p in parts) + len(word) + len(value) + 3 > width:
            break
        style = look.text if view.state == "live" else look.stale
        parts += [Segment(f" {word} ", look.dim), Segment(f"{value} ", style)]
    return tuple(parts)


def line_for(chosen: tuple[NodeView, Gpu | None], now: float, width: int, look: StyleSet, opens: str) -> Row:
    """Return the line for the selected node and GPU: trouble first, then as many values as fit.

    `opens` is the key that opens the node.
    """
    view, gpu = chosen
    if gpu is None:
        words = "this GPU has never reported" if view.gpus else _without_gpus(view, now, opens)
        name = f" {clean(view.name)}  "
        return (Segment(name, look.strong), Segment(fit(words, max(1, width - cell_len(name))), look.dim))
    parts = [Segment(f" {clean(view.name)} GPU {gpu.info.index} ", look.strong)]
    if trouble := trouble_of(gpu, now):
        parts.append(Segment(f" {clean(trouble)} ", look.badge[trouble_severity(gpu)]))
    if view.state != "live":
        parts.append(Segment(f" node {view.state} ", look.badge["warning"]))
    for word, value in facts(gpu, view.node, now):
        text = f" {word} " if word else " "
        if sum(p.cell_length for p in parts) + len(text) + len(value) > width - 1:
            continue
        style = look.dim if word == "rank" and not rank_text(view.node, gpu, now)[1] else look.text
        parts += [Segment(text, look.dim), Segment(clean(value) + " ", style)]
    return tuple(parts)


class CellLine(RebuiltPage, can_focus=False):
    """The line with the values of the GPU, or in a folded fleet of the node, under the heat map's cursor."""

    DEFAULT_CSS: ClassVar[str] = "CellLine { height: 1; background: $surface; overflow-y: hidden; }"

    def __init__(self, heat: HeatMap) -> None:
        super().__init__(id="cell")
        self.heat = heat

    def build(self, width: int) -> list[Row]:
        chosen = self.heat.chosen()
        if chosen is None:
            shown = self.heat.shown
            words = "nothing is unhealthy" if shown.unhealthy and not shown.text else "nothing matches"
            back = self.cockpit.key_of("app.back")
            words = f" {words}; {back} shows all" if shown.narrowed else " no node is monitored"
            return [(Segment(words, self.look.dim),)]
        if self.heat.shown.folding is not None:
            return [line_for_node(chosen[0], self.view_state.now, width, self.look)]
        opens = self.cockpit.key_of("move.open")
        return [line_for(chosen, self.view_state.now, width, self.look, opens)]


class SelectedPlots(GpuPlotsPage):
    """The widget with the histories of the GPU under the cursor, below the table of a wide, tall screen."""

    DEFAULT_CSS: ClassVar[str] = "SelectedPlots { height: 1fr; overflow-y: hidden; }"

    def __init__(self, heat: HeatMap) -> None:
        super().__init__(id="fleet-plots")
        self._heat = heat

    def selected(self) -> tuple[NodeView, Gpu] | None:
        """Return the GPU under the cursor with its node; None if no GPU is there, as on a folded map."""
        view, gpu = self._heat.chosen() or (None, None)
        return None if view is None or gpu is None else (view, gpu)
