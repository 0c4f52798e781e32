"""The columns and rows of `gpuwatch dmon`: those of `nvidia-smi dmon`, for a whole cluster.

Header words, units and group letters are nvidia-smi's (driver 535 and later), so that scripts that read
its output read ours after one more column in front: the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.fleet.nodes.units import UNKNOWN

MIB = 1 << 20
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class DmonColumn:
    """One column: the two header words and how it reads a GPU; None is unknown."""

    title: str
    unit: str
    read: Callable[[Gpu], float | None]


def metric(name: str, scale: float = 1.0) -> Callable[[Gpu], float | None]:
    """Reads a fleet metric, divided by `scale`."""
    known = METRICS[name]

    def read(gpu: Gpu) -> float | None:
        value = known.read_value(gpu)
        return None if value is None else value / scale

    return read


def unread(_gpu: Gpu) -> float | None:
    """nvidia-smi has this column and our agent does not ask for it."""
    return None


def in_slowdown(gpu: Gpu) -> float | None:
    """1 when the GPU was slowed down by heat or a power brake since the last sample, else 0."""
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
"""Group letter -> what it is and its columns, as nvidia-smi groups them."""


class GroupError(ValueError):
    """Letters that name no group; the message lists the allowed ones."""


def columns(letters: str) -> list[DmonColumn]:
    """The columns of the groups in the order in which they are named, each once.

    Raises:
        GroupError: an unknown letter, or none at all.
    """
    unknown = [letter for letter in letters if letter not in GROUPS]
    if unknown or not letters:
        allowed = ", ".join(f"{letter} ({meaning})" for letter, (meaning, _) in GROUPS.items())
        problem = f"unknown group {', '.join(map(repr, unknown))}" if unknown else "no group given"
        raise GroupError(f"{problem}; the groups are {allowed}")
    return [column for letter in dict.fromkeys(letters) for column in GROUPS[letter][1]]


@dataclass(frozen=True)
class Layout:
    """How lines are written: which columns, how wide the node's name, which time stamps (of `D` and `T`)."""

    columns: Sequence[DmonColumn]
    node_width: int
    stamps: str = ""

    def header(self) -> list[str]:
        """The two header lines."""
        stamps = {"D": ("Date", "YYYYMMDD"), "T": ("Time", "HH:MM:SS")}
        return [
            "#"
            + "".join(f"{stamps[letter][line]:<12}" for letter in self.stamps)
            + f"{' ' * (not self.stamps)}{word:<{self.node_width}}  {gpu}"
            + "".join(f"{(column.title, column.unit)[line]:>7}" for column in self.columns)
            for line, (word, gpu) in enumerate((("node", "gpu"), ("name", "Idx")))
        ]

    def row(self, node: str, gpu: Gpu, stamp: str) -> str:
        """The values of a GPU that answers."""
        return self._start(node, gpu, stamp) + "".join(f"{value_text(c.read(gpu)):>7}" for c in self.columns)

    def words(self, node: str, gpu: Gpu, stamp: str, text: str) -> str:
        """A line about a GPU that does not answer: no old values."""
        return f"{self._start(node, gpu, stamp)}  {text}"

    def _start(self, node: str, gpu: Gpu, stamp: str) -> str:
        lead = " " if self.stamps else "  "
        return f"{lead}{stamp}{node:<{self.node_width}}  {gpu.info.index:>3}"


def value_text(value: float | None) -> str:
    """A whole number, as nvidia-smi prints them; a dash when unknown."""
    return UNKNOWN if value is None else f"{value:.0f}"
