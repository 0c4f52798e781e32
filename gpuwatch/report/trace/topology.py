"""NCCL's topology and graphs as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.traces.topology_verdict import TopologyFlag, pcie_rate
from gpuwatch.number_text import plural
from gpuwatch.plain import plain
from gpuwatch.report.once.json_output import Facts
from gpuwatch.runs.traces.nccl_dump import NcclDump

MAX_SHOWN_CHANNELS = 4
MAX_SHOWN_STOPS = 18


def topology_facts(dump: NcclDump, flags: Sequence[TopologyFlag]) -> Facts:
    """Return one dump as plain data; `docs/json.md` documents every key."""
    devices = []
    for each in dump.devices:
        near, how = dump.nics_of(each) if each.kind == "GPU" else ([], None)
        facts = {name: value for name, value in asdict(each).items() if name not in ("host", "path")}
        facts |= {"name": each.name or None, "bus_id": each.path[-1] if each.path else None}
        devices.append({**facts, "nics": [nic.name for nic in near], "nic_distance": how})
    return {
        "file": dump.file,
        "graphs": [
            {**asdict(each), "channels": [list(way) for way in each.channels]} for each in dump.graphs
        ],
        "devices": devices,
        "flags": [{**asdict(each), "actions": list(each.actions)} for each in flags],
    }


def topology_lines(dump: NcclDump, flags: Sequence[TopologyFlag]) -> Iterator[Line]:
    """Yield lines with the problems and their remedies first, then the graphs.

    At most MAX_SHOWN_CHANNELS channels of each, cut after MAX_SHOWN_STOPS stops.
    """
    for flag in flags:
        yield Line(plain(flag.text), "warning", hang=2)
    for action in flags[0].actions if flags else ():
        yield Line(f"  - {action}", hang=4)
    for graph in dump.graphs:
        speeds = f"{_speed(graph.speed_intra)} inside of a node ({graph.type_intra or '-'})"
        speeds += f", {_speed(graph.speed_inter)} between nodes ({graph.type_inter or '-'})"
        yield Line(f"{graph.name}: {plural(len(graph.channels), 'channel')}, {speeds}", hang=2)
        for way in graph.channels[:MAX_SHOWN_CHANNELS]:
            more = " ..." if len(way) > MAX_SHOWN_STOPS else ""
            yield Line("  " + " > ".join(way[:MAX_SHOWN_STOPS]) + more, "muted", hang=4)
        if len(graph.channels) > MAX_SHOWN_CHANNELS:
            yield Line(f"  {len(graph.channels) - MAX_SHOWN_CHANNELS} more channels", "muted")


def topology_table(dump: NcclDump) -> Table:
    """Return a table of the GPUs, each with up to three of the NICs that serve it."""
    table = Table(box=None, pad_edge=False)
    for heading in ("GPU", "rank", "NUMA", "NVLinks", "PCIe GB/s", "NIC", "distance", "NIC Gb/s"):
        table.add_column(heading, justify="left" if heading in ("NIC", "distance") else "right", no_wrap=True)
    for gpu in dump.devices:
        if gpu.kind != "GPU":
            continue
        near, how = dump.nics_of(gpu)
        rate = pcie_rate(gpu)
        speeds = sorted({f"{nic.speed_gbps:g}" for nic in near if nic.speed_gbps is not None})
        table.add_row(
            str(gpu.dev),
            "-" if gpu.rank is None else str(gpu.rank),
            gpu.numa or "-",
            str(gpu.nvlinks),
            "-" if rate is None else f"{rate:g}",
            Text(", ".join(nic.name or str(nic.dev) for nic in near[:3]) or "-"),
            how if near else "-",
            ", ".join(speeds) or "-",
        )
    return table


def _speed(value: float | None) -> str:
    return "-" if value is None else f"{value:g} GB/s a channel"
