"""The columns of the process table: values, widths, and which are dropped on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from gpuwatch.fleet.nodes.units import MEMORY
from gpuwatch.number_text import UNKNOWN
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.toolkit.styles import clean
from gpuwatch.wire import Process


class ProcessColumn(Struct, frozen=True):
    """One column of the process table."""

    name: str
    title: str
    width: int
    keep: int
    """Columns with higher values are kept longer on a narrow screen."""
    text: Callable[[Process, NodeView], str]
    right: bool = False


def _known(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _gpus(process: Process, view: NodeView) -> str:
    index = {gpu.info.uuid: gpu.info.index for gpu in view.gpus}
    return ",".join(str(n) for n in sorted(index[h.uuid] for h in process.gpus if h.uuid in index)) or UNKNOWN


def _memory(process: Process, _view: NodeView) -> str:
    held = [each.memory_bytes for each in process.gpus if each.memory_bytes is not None]
    return MEMORY.format(float(sum(held)) if held else None).strip()


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}%"


def _share(process: Process, _view: NodeView) -> str:
    return _percent(max((each.sm_pct for each in process.gpus if each.sm_pct is not None), default=None))


def rank_text(process: Process) -> str:
    """Return a process's rank as text: `~3` if it is inferred, a dash if unknown."""
    return f"~{process.rank}" if process.inferred else _known(process.rank)


COLUMNS = (
    ProcessColumn("rank", "rank", 5, 99, lambda p, _: rank_text(p), right=True),
    ProcessColumn("pid", "pid", 8, 98, lambda p, _: _known(p.pid if p.pid >= 0 else None), right=True),
    ProcessColumn("user", "user", 10, 80, lambda p, _: _known(p.user)),
    ProcessColumn("gpus", "GPU", 5, 97, _gpus),
    ProcessColumn("memory", "memory", 7, 90, _memory, right=True),
    ProcessColumn("sm", "SM", 5, 70, _share, right=True),
    ProcessColumn("cpu", "CPU", 5, 75, lambda p, _: _percent(p.cpu_pct), right=True),
    ProcessColumn("state", "S", 1, 95, lambda p, _: p.state or "-"),
    ProcessColumn("job", "job or container", 18, 10, lambda p, _: _known(p.job or p.container)),
    ProcessColumn("command", "command", 20, 50, lambda p, _: clean(p.command or p.name)),
)
"""All columns in screen order; the command gets the remaining width."""


def choose(width: int, wanted: Sequence[str] = ()) -> list[tuple[ProcessColumn, int]]:
    """Return the columns that fit `width` cells, with their widths, in screen order.

    The most important are kept. One cell separates two columns; the command gets the remaining cells.

    Args:
        width: Of the table.
        wanted: Names of columns in screen order; empty: all.
    """
    order = [column for name in wanted for column in COLUMNS if column.name == name] or list(COLUMNS)
    left, chosen = width - 1, list[tuple[ProcessColumn, int]]()
    for column in sorted(order, key=lambda each: -each.keep):
        if column.width + 1 <= left:
            chosen.append((column, column.width))
            left -= column.width + 1
    chosen.sort(key=lambda pair: order.index(pair[0]))
    return [(column, cells + left * (column.name == "command")) for column, cells in chosen]
