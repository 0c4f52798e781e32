"""The columns of the rank table: values, widths, and which are dropped on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.health.node_checks import since
from gpuwatch.diagnose.training.job_view.facts import RankRow
from gpuwatch.fleet.nodes import units
from gpuwatch.number_text import UNKNOWN, age_text, scaled_text, step_time_text

Write: TypeAlias = Callable[[float], str]
Read: TypeAlias = "Callable[[RankRow, float], float | None]"


class RankColumn(Struct, frozen=True):
    """One column of the rank table."""

    name: str
    title: str
    width: int
    """Behind a column with a flag, one more than its longest usual value, which the flag would touch."""
    keep: int
    """Columns with higher values are kept longer on a narrow screen."""
    read: Read
    write: Write
    source: Literal["log", "gpu", "age"]
    """The source of the value, which decides when it looks stale."""
    flag: str = ""
    """The column of `facts.COLUMNS` or the flag that marks it."""
    falling: bool = True
    """True if the first sort puts the largest value first."""

    def text(self, row: RankRow, now: float) -> str:
        """Return the cell's text; a dash if the value is unknown. `now`: monotonic seconds."""
        value = self.read(row, now)
        return UNKNOWN if value is None else self.write(value)

    def order(self, row: RankRow, now: float, falling: bool) -> float:
        """Return the sort key of a row; unknown values come last in either direction."""
        value = self.read(row, now)
        if value is None:
            return float("-inf") if falling else float("inf")
        return value


q = units
COLUMNS = (
    RankColumn("step", "step", 8, 99, lambda r, _: r.step, lambda v: f"{v:.0f}", "log", "", falling=False),
    RankColumn("lag", "lag", 4, 98, lambda r, _: r.lag, lambda v: f"{min(v, 9999):.0f}", "log", "lag"),
    RankColumn("step_s", "step s", 6, 97, lambda r, _: r.step_s, step_time_text, "log", "step_s"),
    RankColumn(
        "tokens", "tok/s", 6, 90, lambda r, _: r.tokens_per_s, lambda v: scaled_text(v, 1000), "log",
        "tokens_per_s", falling=False,
    ),
    RankColumn("memory", "mem", 6, 88, lambda r, _: r.memory_bytes, q.MEMORY.text, "gpu", "memory_bytes"),
    RankColumn("util", "util", 5, 50, lambda r, _: r.busy_pct, q.PERCENT.text, "gpu", falling=False),
    RankColumn(
        "clock", "SM MHz", 6, 94, lambda r, _: r.clock_mhz, q.MEGAHERTZ.text, "gpu", "clock_mhz",
        falling=False,
    ),
    RankColumn("power", "power", 5, 80, lambda r, _: r.power_w, q.WATTS.text, "gpu", "power_w"),
    RankColumn("temp", "temp", 5, 86, lambda r, _: r.temperature_c, q.CELSIUS.text, "gpu", "temperature_c"),
    RankColumn("throttle", "throt", 5, 92, lambda r, _: r.throttle_pct, q.PERCENT.text, "gpu", "throttle"),
    RankColumn("log", "log age", 7, 96, lambda r, n: since(r.wrote_at, n), age_text, "age", "log"),
    RankColumn("step_age", "step age", 8, 40, lambda r, n: since(r.reported_at, n), age_text, "age"),
    RankColumn("gpu_age", "GPU age", 7, 30, lambda r, n: since(r.gpu_at, n), age_text, "age"),
)  # fmt: skip
"""All columns in screen order."""
SORTS = ("rank", *(column.name for column in COLUMNS))


TRENDS = (("smclk", "SM clock", 0.4), ("power", "power", 0.0))
"""The GPU histories that a wide table shows as plots.

Each: a series of `GpuHistory`, its title, and the lower end of its plot as a fraction of the scale's top.
"""
TREND_S = 120.0
MIN_TREND_WIDTH, MAX_TREND_WIDTH = 14, 24


def trend_width(left: int) -> int:
    """Return the width of each trend column if the others leave `left` cells; 0 if they leave too few."""
    each = left // len(TRENDS) - 2
    return min(MAX_TREND_WIDTH, each) if each >= MIN_TREND_WIDTH else 0


def choose(width: int, wanted: Sequence[str] = ()) -> tuple[list[RankColumn], int]:
    """Return the columns that fit `width` cells, in screen order, and the number of cells left.

    A cell for a flag follows each column.

    Args:
        width: The width without rank and place.
        wanted: Names of columns in screen order; empty: all.
    """
    left, chosen = width, list[RankColumn]()
    order = [column for name in wanted for column in COLUMNS if column.name == name] or list(COLUMNS)
    for column in sorted(order, key=lambda each: -each.keep):
        if column.width + 1 <= left:
            chosen.append(column)
            left -= column.width + 1
    return sorted(chosen, key=order.index), left
