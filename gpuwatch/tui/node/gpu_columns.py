"""The values of a GPU on the node screen: the lines of its card, or columns of one or two lines per GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from gpuwatch.fleet.nodes.metrics import METRICS, power_limit_w, power_text, slowdown_c
from gpuwatch.tui.node.gpu_subject import Subject
from gpuwatch.tui.toolkit.text import memory_of

MEMORY_BAR_FROM = 92
"""From this width of the screen on the memory column has a bar."""


class GpuValue(Struct, frozen=True):
    """A value of a GPU, which is a line of its card or a column: how its text, bar and history are made."""

    name: str
    title: str
    word: str
    """The name of the value on a card, at most seven cells."""
    heading: str
    width: int
    """Width of the text in a line, in cells."""
    metric: str
    text: Callable[[Subject], str]
    """A function that returns the value as text with its unit; MHz is left out."""
    scale: Callable[[Subject], tuple[float, float]]
    """A function that returns (low, high) of the scale of the history."""
    bar: int = 0
    """Width of the bar in a line, in cells."""
    optional: bool = False
    """True if the value is shown only if the user selects it."""

    def bar_cells(self, width: int) -> int:
        """Return the width in cells of the value's bar, 0 for none, in a line of `width` cells."""
        return 0 if self.name == "memory" and width < MEMORY_BAR_FROM else self.bar


def _of(metric: str) -> Callable[[Subject], str]:
    return lambda subject: subject.text(metric)


def _memory(subject: Subject) -> str:
    return memory_of(subject.gpu)


def _temperature(subject: Subject) -> str:
    slowdown = slowdown_c(subject.gpu)
    return subject.text("temp") + (f"/{slowdown:.0f}C" if slowdown else "")


def _heat(subject: Subject) -> tuple[float, float]:
    return METRICS["temp"].scale(subject.gpu) or (30.0, 90.0)


def _memory_heat(subject: Subject) -> tuple[float, float]:
    return METRICS["memtemp"].scale(subject.gpu) or (30.0, 95.0)


def _clocks(subject: Subject) -> tuple[float, float]:
    return 0.0, float(subject.gpu.info.sm_clock_max_mhz or 2000)


def _watts(subject: Subject) -> tuple[float, float]:
    return 0.0, power_limit_w(subject.gpu) or 1.0


def _rates(metric: str) -> Callable[[Subject], tuple[float, float]]:
    return lambda subject: METRICS[metric].scale(subject.gpu) or (0.0, 1e9)


def _percent(_subject: Subject) -> tuple[float, float]:
    return 0.0, 100.0


def _more(
    name: str, title: str, word: str, width: int, scale: Callable[[Subject], tuple[float, float]] = _percent
) -> GpuValue:
    return GpuValue(name, title, word, word, width, name, _of(name), scale, optional=True)


COLUMNS = (
    GpuValue("util", "utilization", "util", "util", 5, "util", _of("util"), _percent, bar=9),
    GpuValue("memory", "memory", "memory", "memory", 13, "mem", _memory, _percent, bar=6),
    GpuValue("power", "power", "power", "power", 9, "power", lambda one: power_text(one.gpu, 0.0), _watts),
    GpuValue("temp", "temperature", "temp", "temp", 7, "temp", _temperature, _heat),
    GpuValue("clock", "SM clock", "clock", "SM MHz", 6, "smclk", _of("smclk"), _clocks),
    GpuValue("tensor", "tensor activity", "tensor", "tensor", 6, "tensor", _of("tensor"), _percent),
    _more("sm", "SM activity", "SM", 5),
    _more("dram", "DRAM activity", "DRAM", 5),
    _more("memtemp", "memory temperature", "mem C", 5, scale=_memory_heat),
    _more("throttle", "throttled", "throt", 5),
    _more("pcie", "PCIe throughput", "PCIe", 6, scale=_rates("pcie")),
    _more("nvlink", "NVLink throughput", "NVLink", 6, scale=_rates("nvlink")),
    _more("fan", "fan", "fan", 5),
    _more("ecc", "ECC uncorrected", "ECC", 6),
    _more("replays", "PCIe replays", "replays", 7),
)


def selected(names: Sequence[str]) -> list[GpuValue]:
    """Return the values with these names, in this order; without names all that are not optional."""
    by_name = {each.name: each for each in COLUMNS}
    return [by_name[name] for name in names] or [each for each in COLUMNS if not each.optional]


def fitting(columns: Sequence[GpuValue], width: int, room: int) -> list[GpuValue]:
    """Return the leading columns that fit into `room` cells; `width` is that of the whole line."""
    kept: list[GpuValue] = []
    for column in columns:
        room -= column.bar_cells(width) + column.width + 2
        if room < 0:
            break
        kept.append(column)
    return kept
