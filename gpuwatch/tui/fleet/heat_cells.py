"""Paints one heat map cell: a number in the ramp's colour, or a sign for a problem."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style

from gpuwatch.fleet.nodes.metrics import Metric, Scale
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.number_text import age_text
from gpuwatch.tui.model.node_summary import NodeView, severity_level
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.styles import StyleSet
from gpuwatch.tui.toolkit.text import since_s

Cell = tuple[str, Style]
MAX_CACHED_CELLS = 4096
"""Maximum number of cached cells; a metric with many decimals needs many different cells."""


def number_text(value: float, level: float | None, width: int) -> str:
    """Return a value as text of `width` (1 to 7) cells.

    One or two cells show the tenth of the scale (`level`, 0 to 1) as a digit, or `.` if that is None; three
    cells show at most 99, more cells at most 999. From two cells on, the numbers of neighbours do not touch.
    """
    if width < 3:
        return ("." if level is None else str(max(0, min(9, int(level * 10))))).rjust(width)
    if width < 4:
        return f"{min(value, 99):>{width}.0f}"
    return f"{min(value, 999):>3.0f}".center(width)


WORST_OF_NODE = frozenset(("temp", "age"))
"""Metrics for which a node's cell shows the largest value of its GPUs; for others it shows the mean."""


class CellPainter:
    """Paints the cells of one metric in one width and style; equal cells are made once and cached."""

    def __init__(self, metric: Metric, width: int, look: StyleSet) -> None:
        self.missing: Cell = (look.glyphs.missing.center(width), look.dim)
        """No value."""
        self.left_out: Cell = (look.glyphs.missing.center(width), look.track)
        """Excluded by the filter."""
        self.never_seen: Cell = (look.glyphs.lost.center(width), look.severity["critical"])
        """Expected, but never seen."""
        self._metric, self._width, self._look = metric, width, look
        self._of_nodes: dict[str, tuple[NodeView, Cell]] = {}
        self._made: dict[tuple[float | None, Scale, Severity], Cell] = {}

    def cells(self, view: NodeView, gpus: Iterable[Gpu], now: float) -> list[Cell]:
        """Return one cell per GPU of the node, in their order."""
        if view.state != "live":
            return [self._old(gpu, now) for gpu in gpus]
        found, made, severities = [], self._made, view.gpu_severity
        ages, read, scale_of = self._metric.name == "age", self._metric.read_value, self._metric.scale_of
        for gpu in gpus:
            if gpu.state != "ok":
                found.append(self._trouble(gpu, now))
                continue
            kind = (gpu.age(now) if ages else read(gpu), scale_of(gpu), severities[gpu.info.uuid])
            cell = made.get(kind)
            if cell is None:
                if len(made) > MAX_CACHED_CELLS:
                    made.clear()
                cell = made[kind] = self._number(*kind)
            found.append(cell)
        return found

    def node_cell(self, view: NodeView, now: float) -> Cell:
        """Return the cell of a whole node: the mean or largest value of its GPUs that answer, or a sign.

        A live node has the sign of its severity in place of the number if one of its GPUs is lost or stuck,
        or if none has answered yet.
        """
        kept = self._of_nodes.get(view.name)
        if kept is None or kept[0] is not view or self._metric.name == "age":
            kept = self._of_nodes[view.name] = view, self._node_cell(view, now)
        return kept[1]

    def _node_cell(self, view: NodeView, now: float) -> Cell:
        glyphs, width = self._look.glyphs, self._width
        if view.state in ("lost", "connecting"):
            return self.never_seen if view.state == "lost" else self.missing
        if view.state == "stale":
            return glyphs.stale.center(width), self._look.stale
        answering = [gpu for gpu in view.gpus if gpu.state == "ok"]
        if view.lost or view.stuck or (view.unanswered and not answering):
            severity: Severity = max(view.severity, "unknown", key=severity_level)
            return self._look.glyph(severity).center(width), self._look.badge[severity]
        known = [value for gpu in answering if (value := self._metric.read(gpu, now)) is not None]
        if not known:
            return self._number(None, None, view.severity)
        value = max(known) if self._metric.name in WORST_OF_NODE else sum(known) / len(known)
        return self._number(value, self._metric.scale_of(answering[0]), view.severity)

    def _number(self, value: float | None, scale: Scale, severity: Severity) -> Cell:
        look, width = self._look, self._width
        if value is None:
            return self.missing
        low, high = scale or (0.0, 0.0)
        level = (value - low) / (high - low) if high > low else None
        if severity not in ("warning", "error", "critical"):
            return number_text(value, level, width), look.heat(level)
        text = number_text(value, level, width)
        if width > 3:
            text = f"{min(value, 999):>3.0f}{look.glyph(severity)}".center(width)
        return text, look.badge[severity]

    def _trouble(self, gpu: Gpu, now: float) -> Cell:
        """Return the cell of a lost, stuck or unanswered GPU, with the time since if it fits."""
        glyphs, width = self._look.glyphs, self._width
        signs: dict[str, tuple[str, Severity]] = {
            "lost": (glyphs.lost, "critical"),
            "stuck": (glyphs.stuck, "warning"),
        }
        sign, severity = signs.get(gpu.state, (glyphs.missing, "unknown"))
        since = since_s(gpu, now)
        if since is not None and width > len(text := sign + age_text(since)):
            sign = text
        return sign.center(width), self._look.badge[severity]

    def _old(self, gpu: Gpu, now: float) -> Cell:
        """Return the cell of a GPU whose node is not live: its last value or sign, marked as stale."""
        if gpu.state != "ok":
            glyphs = self._look.glyphs
            sign = {"lost": glyphs.lost, "stuck": glyphs.stuck}.get(gpu.state, glyphs.missing)
            return sign.center(self._width), self._look.stale
        value = self._metric.read(gpu, now)
        text = f"{min(value, 999):.0f}" if value is not None and self._width > 3 else ""
        return f"{text}{self._look.glyphs.stale}".center(self._width), self._look.stale
