"""Paints one GPU of a node as one line, two lines or a card, from its values. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.segment import Segment

from gpuwatch.fleet.nodes.last_ranks import ended_ranks, ranks_on
from gpuwatch.fleet.nodes.metrics import METRICS, power_limit_w, slowdown_c
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.number_text import seconds_text
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.node.gpu_text import memory_of, power_text, rank_text
from gpuwatch.tui.toolkit.charts import bar, sparkline
from gpuwatch.tui.toolkit.rows import Row
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.toolkit.text import trouble_of, trouble_severity

Shape: TypeAlias = Literal["line", "pair", "card"]
LINES: dict[Shape, int] = {"line": 1, "pair": 2, "card": 8}
NEAR_SLOWDOWN = 0.9
"""Fraction of the temperature scale, which ends at the slowdown temperature."""
CARD_WIDTH = 64
"""Below this width a card is too narrow."""

THROTTLE_WORDS = {
    "power_cap": "power cap",
    "hw_slowdown": "HW slowdown",
    "sync_boost": "sync boost",
    "sw_thermal": "thermal (SW)",
    "hw_thermal": "thermal (HW)",
    "power_brake": "power brake",
    "display": "display clock",
}
"""The throttle reasons that are named; idle and application clocks are normal."""


@dataclass(frozen=True)
class Subject:
    """A GPU with its node and the time, and its values as text."""

    gpu: Gpu
    node: Node
    view: NodeView
    now: float

    @property
    def severity(self) -> Severity:
        """The severity of its worst condition; "unknown" if it is ok but its node is not live."""
        own = self.view.gpu_severity.get(self.gpu.info.uuid, "ok")
        return "unknown" if self.view.state != "live" and own == "ok" else own

    @property
    def old(self) -> bool:
        """True if the values are not current."""
        return self.gpu.state != "ok" or self.view.state != "live"

    def value(self, name: str) -> float | None:
        """Return a metric's last known value; None if unknown."""
        return METRICS[name].read(self.gpu, self.now)

    def text(self, name: str) -> str:
        """Return a metric's last known value as text."""
        return METRICS[name].format(self.value(name)).strip()

    def level(self, name: str) -> float | None:
        """Return a metric's position on its scale, 0 to 1; None if unknown."""
        return METRICS[name].level(self.gpu, self.now)

    def history(self, name: str, points: int) -> list[float | None]:
        """Return a metric's values in the last `points` seconds, one per second; None where unknown."""
        series = self.gpu.history.series(name, float(points), points, self.now)
        return [None if value != value else float(value) for value in series]  # noqa: PLR0124 - NaN is not itself

    def throttle(self) -> list[str]:
        """Return the throttle reasons in words, without those that are normal."""
        reasons = (self.gpu.fast.throttle if self.gpu.fast else None) or []
        return [
            THROTTLE_WORDS.get(reason, reason) for reason in reasons if reason not in ("idle", "app_clocks")
        ]


def shape_for(gpus: int, width: int, height: int) -> tuple[Shape, int]:
    """Return the largest shape with which all GPUs fit, and how many stand side by side."""
    for across in range(1, max(1, min(gpus, width // CARD_WIDTH)) + 1):
        if width >= CARD_WIDTH and -(-gpus // across) * LINES["card"] <= height:
            return "card", across
    return ("pair", 1) if gpus * 2 + 1 <= height else ("line", 1)


def _temperature(subject: Subject) -> str:
    slowdown = slowdown_c(subject.gpu)
    return subject.text("temp") + (f"/{slowdown:.0f}C" if slowdown else "")


def _first_words(subject: Subject) -> tuple[str, Severity | None]:
    """Return the text that must be shown beside the numbers, and its severity: trouble, age or throttling."""
    if trouble := trouble_of(subject.gpu, subject.now):
        return trouble, trouble_severity(subject.gpu)
    if subject.view.state != "live":
        age = subject.gpu.age(subject.now)
        return f"values {'never read' if age is None else seconds_text(age) + ' old'}", "warning"
    slow = subject.gpu.slow
    if slow and slow.recovery_action not in (None, "none"):
        return f"needs {str(slow.recovery_action).replace('_', ' ')}", "critical"
    held = subject.throttle()
    return (", ".join(held), None if held == ["power cap"] else "warning") if held else ("", None)


def _memory_bar(width: int) -> int:
    """Return the cells of the memory bar; 0 if the numbers need the space."""
    return 6 if width >= 92 else 0


def line_heading(width: int, look: StyleSet) -> Row:
    """Return the heading over GPUs of one or two lines."""
    memory = _memory_bar(width) + 13
    words = f"   GPU  rank {'util':>14}  {'memory':>{memory}}  {'power':>9}  {'temp':>7}"
    words += f"  {'SM MHz':>6}  {'tensor':>6}  "
    if width >= len(words) + 12:
        words += "throttle reason"
    return (Segment(fit(words.rstrip(), width), look.dim),)


def as_line(subject: Subject, width: int, look: StyleSet) -> Row:
    """Return a GPU as one line: bars and numbers."""
    style = look.stale if subject.old else look.text
    heat = look.severity["unknown" if subject.old else "ok"]
    own = ranks_on(subject.node, subject.gpu.info.uuid) or ended_ranks(subject.node, subject.gpu)
    ranks = ",".join(map(str, own)) or "-"
    memory = memory_of(subject.gpu)
    words, severity = _first_words(subject)
    held = severity == "warning" and not subject.old
    parts = [
        look.mark(subject.severity),
        Segment(f" {subject.gpu.info.index:>3} ", look.strong),
        Segment(fit(ranks, 5, ">") + "  ", look.dim),
        *bar(subject.level("util"), 9, look, heat),
        Segment(f"{subject.text('util'):>5}  ", style),
        *bar(subject.level("mem"), _memory_bar(width), look, heat),
        Segment(f"{memory:>13}  ", style),
        Segment(f"{power_text(subject.gpu):>9}  {_temperature(subject):>7}  ", style),
        Segment(f"{subject.text('smclk'):>6}", look.severity["warning"] if held else style),
        Segment(f"  {subject.text('tensor'):>6}  ", style),
    ]
    room = width - sum(p.cell_length for p in parts)
    if subject.gpu.state != "ok":
        head, room = parts[:3], width - 13
        return (*head, Segment(fit(f" {words} ", room), look.badge[trouble_severity(subject.gpu)]))
    return (*parts, Segment(fit(words, room), look.severity[severity] if severity else look.dim))


def as_pair(subject: Subject, width: int, look: StyleSet) -> list[Row]:
    """Return a GPU as two lines: the line, and its histories below."""
    glyphs, dim = look.glyphs, look.dim
    ink = look.severity["unknown" if subject.old else "ok"]
    limit = power_limit_w(subject.gpu) or 1.0
    ends = METRICS["temp"].scale(subject.gpu) or (30.0, 90.0)
    plots = (
        ("util", 14, 0.0, 100.0),
        ("mem", _memory_bar(width) + 13, 0.0, 100.0),
        ("power", 9, 0.0, limit),
        ("temp", 7, *ends),
        ("smclk", 6, 0.0, float(subject.gpu.info.sm_clock_max_mhz or 2000)),
        ("tensor", 6, 0.0, 100.0),
    )
    row = [Segment(" " * 13)]
    for name, cells, low, high in plots:
        points = cells * 2 if glyphs.braille else cells
        row += [
            Segment(sparkline(subject.history(name, points), low, high, cells, glyphs), ink),
            Segment("  "),
        ]
    room = width - sum(p.cell_length for p in row)
    links = _links(subject)
    while links and len("  ".join(links)) > room:
        links.pop()
    return [as_line(subject, width, look), (*row, Segment("  ".join(links), dim))]


def _links(subject: Subject) -> list[str]:
    info, medium, slow = subject.gpu.info, subject.gpu.medium, subject.gpu.slow
    parts = []
    if medium and medium.pcie_gen:
        most = f" of gen{info.pcie_gen_max} x{info.pcie_width_max}" if info.pcie_gen_max else ""
        same = (medium.pcie_gen, medium.pcie_width) == (info.pcie_gen_max, info.pcie_width_max)
        parts.append(f"PCIe gen{medium.pcie_gen} x{medium.pcie_width}{'' if same else most}")
    if slow and slow.nvlink_active is not None:
        parts.append(f"NVLink {slow.nvlink_active}" + (f"/{info.nvlink_count}" if info.nvlink_count else ""))
    return parts


def _health(subject: Subject) -> str:
    slow = subject.gpu.slow
    if slow is None:
        return "ECC -  remap -"
    ecc = "-" if slow.ecc_uncorrected is None else str(slow.ecc_uncorrected)
    soft = "-" if slow.ecc_corrected is None else str(slow.ecc_corrected)
    remap = "failed" if slow.remap_failed else "pending" if slow.remap_pending else "-"
    if remap == "-" and slow.remapped_uncorrectable is not None:
        remap = str((slow.remapped_correctable or 0) + slow.remapped_uncorrectable)
    recovery = slow.recovery_action if slow.recovery_action not in (None, "none") else ""
    return f"ECC {ecc} uncorr. {soft} corr.  remap {remap}" + (f"  recovery: {recovery}" if recovery else "")


def as_card(subject: Subject, width: int, look: StyleSet, *, chosen: bool) -> list[Row]:
    """Return a GPU as eight lines: title, six measures with bar, number and history, links and health."""
    info = subject.gpu.info
    ranks = rank_text(subject.node, subject.gpu, subject.now)[0]
    words, severity = _first_words(subject)
    plain = look.colours != "many" and chosen  # the ground alone does not mark it there
    head = f"{look.glyphs.cursor if plain else ' '}GPU {info.index} "
    title = [
        look.mark(subject.severity),
        Segment(head, look.brand if chosen else look.strong),
        Segment(f" {clean(info.name)}  ", look.text),
        Segment(f"rank {ranks}  " if ranks else "", look.title),
    ]
    room = width - sum(p.cell_length for p in title)
    loud = severity == "critical"
    stated = f" {clean(words)} " if loud else clean(words)
    style = look.badge["critical"] if loud else look.severity[severity] if severity else look.dim
    title.append(Segment(fit(stated, min(room, len(stated))) if room > 0 else "", style))
    limit = power_limit_w(subject.gpu) or 1.0
    low, high = METRICS["temp"].scale(subject.gpu) or (30.0, 90.0)
    clock_top = float(info.sm_clock_max_mhz or 2000)
    memory = memory_of(subject.gpu)
    measures = (
        Measure("util", "util", subject.text("util"), 0.0, 100.0),
        Measure("memory", "mem", memory, 0.0, 100.0),
        Measure("power", "power", power_text(subject.gpu), 0.0, limit),
        Measure("temp", "temp", _temperature(subject), low, high),
        Measure("clock", "smclk", f"{subject.text('smclk')} MHz", 0.0, clock_top),
        Measure("tensor", "tensor", subject.text("tensor"), 0.0, 100.0),
    )
    rows: list[Row] = [_beside(tuple(title), width)]
    rows += [_measured(subject, measure, width, look) for measure in measures]
    footer = "  " + "  ".join([*_links(subject), _health(subject)])
    rows.append((Segment(fit(footer, width), look.dim),))
    return rows


def _beside(row: Row, width: int) -> Row:
    used = sum(p.cell_length for p in row)
    return (*row, Segment(" " * max(0, width - used)))


@dataclass(frozen=True)
class Measure:
    """A line of a card: a metric as bar, text and sparkline on the scale from `low` to `high`."""

    word: str
    metric: str
    text: str
    low: float
    high: float


def _measured(subject: Subject, measure: Measure, width: int, look: StyleSet) -> Row:
    level = subject.level(measure.metric)
    style = look.stale if subject.old else look.text
    ink = look.severity["unknown" if subject.old else "ok"]
    if measure.metric == "temp" and level is not None and level > NEAR_SLOWDOWN and not subject.old:
        ink = look.severity["warning"]
    cells = max(6, (width - 25) * 2 // 5)
    spark = max(6, width - 25 - cells)
    points = spark * 2 if look.glyphs.braille else spark
    history = subject.history(measure.metric, points)
    graph = sparkline(history, measure.low, measure.high, spark, look.glyphs)
    return (
        Segment(f"  {measure.word:<7}", look.dim),
        *bar(level, cells, look, ink),
        Segment(f"{measure.text:>14} ", style),
        Segment(graph, ink),
    )
