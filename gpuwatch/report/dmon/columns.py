"""Columns and rows of `gpuwatch dmon`: those of `nvidia-smi dmon`, for a whole cluster.

Header words, units and group letters are nvidia-smi's (driver 535 and later), so that scripts for its output
can read gpuwatch's after one additional column: the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.number_text import UNKNOWN

MIB = 1 << 20
MEGABYTE = 1_000_000


class DmonColumn(Struct, frozen=True):
    """A column of dmon: its two header words, and a function that reads its value (None: unknown)."""

    title: str
    unit: str
    read: Callable[[Gpu], float | None]


def metric(name: str, scale: float = 1.0) -> Callable[[Gpu], float | None]:
    """Return a reader of a fleet metric, divided by `scale`."""
    known = METRICS[name]

    def read(gpu: Gpu) -> float | None:
        value = known.read_value(gpu)
        return None if value is None else value / scale

    return read


def unread(_gpu: Gpu) -> float | None:
    """Return None: the agent does not read this column of nvidia-smi."""
    return None


def in_slowdown(gpu: Gpu) -> float | None:
    """Return 1 if the GPU was slowed by heat or power brake since the last sample, else 0; None: unknown."""
    share = METRICS["throttle"].read_value(gpu)
    return None if share is None else float(share > 0)


GROUPS: dict[str, tuple[str, tuple[DmonColumn, ...]]] = {
    "p": (
        "power and temperature",
        (
            DmonColumn("pwr", "W", metric("power")),
            DmonColumn("gtemp", "C", metric("temp")),
            DmonColumn("mtemp", "C", metric("memtemp")),
        ),
    ),
    "u": (
        "utilization",
        (
            DmonColumn("sm", "%", metric("util")),
            DmonColumn("mem", "%", metric("membw")),
            DmonColumn("enc", "%", metric("enc")),
            DmonColumn("dec", "%", metric("dec")),
            DmonColumn("jpg", "%", unread),
            DmonColumn("ofa", "%", unread),
        ),
    ),
    "c": (
        "clocks",
        (DmonColumn("mclk", "MHz", metric("memclk")), DmonColumn("pclk", "MHz", metric("smclk"))),
    ),
    "v": (
        "power and thermal violations",
        (DmonColumn("pviol", "%", metric("powercap")), DmonColumn("tviol", "bool", in_slowdown)),
    ),
    "m": (
        "memory",
        (
            DmonColumn("fb", "MB", metric("memused", MIB)),
            DmonColumn("bar1", "MB", unread),
            DmonColumn("ccpm", "MB", unread),
        ),
    ),
    "e": (
        "ECC errors and PCIe replays",
        (
            DmonColumn("sbecc", "errs", metric("eccsoft")),
            DmonColumn("dbecc", "errs", metric("ecc")),
            DmonColumn("pci", "errs", metric("replays")),
        ),
    ),
    "t": (
        "PCIe throughput",
        (
            DmonColumn("rxpci", "MB/s", metric("pcierx", MEGABYTE)),
            DmonColumn("txpci", "MB/s", metric("pcietx", MEGABYTE)),
        ),
    ),
}
"""Group letter -> title and columns of the group, as in nvidia-smi."""


class GroupError(ValueError):
    """Raised for unknown group letters; the message lists the valid ones."""


def columns(letters: str) -> list[DmonColumn]:
    """Return the columns of the groups in the given order, each group once.

    Raises:
        GroupError: a letter is unknown, or none is given.
    """
    unknown = [letter for letter in letters if letter not in GROUPS]
    if unknown or not letters:
        allowed = ", ".join(f"{letter} ({meaning})" for letter, (meaning, _) in GROUPS.items())
        problem = f"unknown group {', '.join(map(repr, unknown))}" if unknown else "no group given"
        raise GroupError(f"{problem}; the groups are {allowed}")
    return [column for letter in dict.fromkeys(letters) for column in GROUPS[letter][1]]


class Layout(Struct, frozen=True):
    """The line format: columns, width of the node name, and time stamps (`D`, `T`)."""

    columns: Sequence[DmonColumn]
    node_width: int
    stamps: str = ""

    def header(self) -> list[str]:
        """Return the two header lines."""
        stamps = {"D": ("Date", "YYYYMMDD"), "T": ("Time", "HH:MM:SS")}
        return [
            "#"
            + "".join(f"{stamps[letter][line]:<12}" for letter in self.stamps)
            + f"{' ' * (not self.stamps)}{word:<{self.node_width}}  {gpu}"
            + "".join(f"{(column.title, column.unit)[line]:>7}" for column in self.columns)
            for line, (word, gpu) in enumerate((("node", "gpu"), ("name", "Idx")))
        ]

    def row(self, node: str, gpu: Gpu, stamp: str) -> str:
        """Return the line with the values of a responding GPU."""
        return self._start(node, gpu, stamp) + "".join(f"{value_text(c.read(gpu)):>7}" for c in self.columns)

    def words(self, node: str, gpu: Gpu, stamp: str, text: str) -> str:
        """Return the line of a GPU that does not respond, with `text` instead of values."""
        return f"{self._start(node, gpu, stamp)}  {text}"

    def _start(self, node: str, gpu: Gpu, stamp: str) -> str:
        lead = " " if self.stamps else "  "
        return f"{lead}{stamp}{node:<{self.node_width}}  {gpu.info.index:>3}"


def value_text(value: float | None) -> str:
    """Return a value as text, rounded to a whole number, as in nvidia-smi; a dash if unknown."""
    return UNKNOWN if value is None else f"{value:.0f}"
