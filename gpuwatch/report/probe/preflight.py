"""A probe's preflight as text: node inventory, processes on GPUs, and the plan."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gpuwatch.blocks.model import Line, Style
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import bit_rate, counted, listed, scaled_text
from gpuwatch.plain import plain
from gpuwatch.probe.protocol import InventoryNic, InventoryPort, NodeInventory
from gpuwatch.probe.results import Estimate, ProbedNode, Results
from gpuwatch.report.probe.format import backend_text

LABEL = 8
BITS = 8
INSTALL = (
    "pip install 'gpuwatch-cluster[probe]' on the nodes, "
    "or name an interpreter that has torch with `python:` in the hosts file"
)
SHOWN_USERS = 8

Row = tuple[str, str, Style]
"""(label, text, style) of a property."""


def inventory_lines(results: Results) -> list[Line]:
    """Return lines with the inventory of each node, equal nodes merged, then the processes on GPUs."""
    groups: dict[tuple[Row, ...], list[ProbedNode]] = defaultdict(list)
    for node in results.nodes:
        groups[tuple(node_rows(node, alone=False))].append(node)
    lines: list[Line] = []
    for alike, nodes in groups.items():
        rows = list(node_rows(nodes[0], alone=True)) if len(nodes) == 1 else list(alike)
        lines.append(Line(fold(node.node for node in nodes)))
        lines += [Line(f"  {label:{LABEL}}{plain(text)}", style) for label, text, style in rows]
    return lines + busy_lines(results)


def node_rows(node: ProbedNode, *, alone: bool) -> Iterator[Row]:
    """Yield the properties of one node as (label, text, style).

    Not `alone`: without pids and addresses, which differ between equal nodes.
    """
    inventory = node.inventory
    if inventory is not None:
        yield python_row(inventory, alone=alone)
        if inventory.python is None and not node.problem:
            yield from (("tried", tried, "plain") for tried in inventory.tried)
        yield "GPUs", gpus_text(inventory), "plain"
        nics = nics_text(inventory.nics, alone=alone)
        if nics:
            yield "NICs", nics, "plain"
        yield from rdma_rows(inventory.ports)
        for note in inventory.notes:
            yield "note", note, "plain"
    if node.problem:
        yield "problem", node.problem, "critical"


def python_row(inventory: NodeInventory, *, alone: bool) -> Row:
    """Return a row (label, text, style) with the interpreter, why it was chosen, and its torch.

    `alone`: the row is of one node; else pids, which differ between nodes, are left out.
    """
    if inventory.python is None:
        return "python", "none with torch", "critical"
    because = inventory.python_from or ""
    if not alone:
        because = re.sub(r"\bprocess \d+", "a process", because)
    torch = f"torch {inventory.torch}" if inventory.torch else "torch of unknown version"
    why = f", from {because}" if because else ""
    return "python", f"{inventory.python}{why}, {torch}", "plain"


def gpus_text(inventory: NodeInventory) -> str:
    """Return `8 x NVIDIA H100 80GB HBM3`; `none; 96 CPUs`."""
    if not inventory.gpus:
        return f"none; {counted(inventory.cpus, 'CPU')}" if inventory.cpus else "none"
    models = Counter(gpu.name or "unknown" for gpu in inventory.gpus)
    return ", ".join(f"{count} x {name}" for name, count in models.items())


def nics_text(nics: Sequence[InventoryNic], *, alone: bool) -> str:
    """Return `eth0 25 Gb/s 10.0.0.5/24 fd00::5/64, ib0 10.1.0.5/16`: each interface with its addresses.

    Addresses only if `alone`; without the loopback interface.
    """
    interfaces: dict[str, list[InventoryNic]] = defaultdict(list)
    for nic in nics:
        if nic.name != "lo":
            interfaces[nic.name].append(nic)
    texts = []
    for name, found in interfaces.items():
        first = found[0]
        parts = [name]
        parts += [bit_rate(first.speed_bps * BITS / 1e9)] if first.speed_bps else []
        parts += [f"{nic.address}/{nic.prefix}" for nic in found if alone]
        parts += [] if first.up else ["down"]
        texts.append(" ".join(parts))
    return ", ".join(texts)


def rdma_rows(ports: Sequence[InventoryPort]) -> Iterator[Row]:
    """Yield one row per kind and state: `8 x InfiniBand 400 Gb/s ACTIVE (mlx5_[0-7])`."""
    kinds: dict[tuple[str, float | None, str], list[str]] = defaultdict(list)
    for port in ports:
        name = port.device if port.port == 1 else f"{port.device}/{port.port}"
        kinds[port.link_layer or "RDMA", port.rate_gbps, port.state or "state unknown"].append(name)
    for (layer, rate, state), names in kinds.items():
        speed = f" {bit_rate(rate)}" if rate else ""
        style: Style = "plain" if "ACTIVE" in state.upper() else "warning"
        yield "RDMA", f"{len(names)} x {layer}{speed} {state} ({fold(names)})", style


def busy_lines(results: Results) -> list[Line]:
    """Return the processes on GPUs, at most SHOWN_USERS by name, a line per node."""
    lines: list[Line] = []
    for node, users in results.busy.items():
        shown = [
            f"{user.pid} {user.name or '?'}"
            + (f" of {user.user}" if user.user else "")
            + (f" {scaled_text(user.memory_bytes, 1024)}B" if user.memory_bytes is not None else "")
            for user in users
        ]
        lines.append(Line(plain(f"{node} is busy: {listed(shown, SHOWN_USERS)}"), "warning"))
    return lines


def torch_is_missing(results: Results) -> bool:
    """Return True if no responding node has an interpreter with torch; False if no node responded."""
    inventories = [node.inventory for node in results.nodes if node.inventory is not None]
    return bool(inventories) and all(None in (inventory.python, inventory.torch) for inventory in inventories)


def refused_lines(results: Results) -> list[Line]:
    """Return lines that state why the probe cannot run, and a remedy."""
    lines = [Line(plain(f"nothing was measured: {results.reason or 'it was refused'}"), "critical")]
    if torch_is_missing(results):
        lines.append(Line(f"No node has a Python with torch: {INSTALL}."))
    return lines


def plan_lines(results: Results) -> list[Line]:
    """Return lines with the plan of the probe and its duration; empty without an estimate."""
    estimate = results.estimate
    if estimate is None:
        return []
    request = results.request
    parts = (
        [f"{counted(len(request.collectives) * len(request.sizes), 'collective measurement')}"]
        if request.collectives
        else []
    )
    if estimate.pairs:
        how = " (quick: finds slow nodes, not single links)" if request.pairs == "quick" else ""
        parts.append(f"{counted(estimate.pairs, 'pair')} in {counted(estimate.rounds, 'round')}{how}")
    if request.gpu_checks and estimate.backend == "nccl":
        parts.append("checks of every GPU")
    return [
        Line(f"plan: {backend_text(results)}", "warning" if estimate.backend == "gloo" else "plain"),
        Line(plain(f"      {where_text(estimate)}")),
        Line(f"      {', '.join(parts) or 'nothing to measure'}"),
        Line(
            f"      about {estimate.seconds:.0f} s, {request.budget_s:.0f} s at most{traffic_text(estimate)}"
        ),
    ]


def where_text(estimate: Estimate) -> str:
    """Return `32 ranks on 4 nodes over ib0 (10.1.0.0/16)`."""
    over = f" over {estimate.interface}" if estimate.interface else ""
    return f"{counted(estimate.ranks, 'rank')} on {counted(estimate.nodes, 'node')}{over}"


def traffic_text(estimate: Estimate) -> str:
    """Return `; 12 GB between the nodes`; empty without traffic."""
    if not estimate.traffic_bytes:
        return ""
    return f"; {scaled_text(estimate.traffic_bytes, 1000)}B between the nodes"


def question(results: Results) -> str:
    """Return the text of the question to the user before anything is measured."""
    estimate = results.estimate
    if estimate is None:
        return "Run it?"
    return f"Run it on {counted(estimate.nodes, 'node')} for about {estimate.seconds:.0f} s?"


def unreachable_lines(results: Results) -> Iterable[Line]:
    """Yield a line for each pair of nodes of which one cannot connect to the other."""
    for each in results.unreachable:
        yield Line(plain(f"{each.src} cannot connect to {each.dst}: {each.error}"), "critical")
