"""The table of a job's ranks, with the statistics over all of them at its top."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.training.job_view.facts import JobFacts, RankRow, Spread
from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.number_text import UNKNOWN
from gpuwatch.tui.model.node_summary import severity_level
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.charts import sparkline
from gpuwatch.tui.toolkit.lines.rows import Cell, Row, highlighted, joined, text_of
from gpuwatch.tui.toolkit.lines.selectable_lines import SortableTable
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.training.job_view import TrainingView
from gpuwatch.tui.training.rank_columns import (
    COLUMNS,
    SORTS,
    TREND_S,
    TRENDS,
    RankColumn,
    choose,
    trend_width,
)

RANK, PLACE = 6, 15
STATISTICS = ("imbalance", "mean", "std", "min", "max")
"""The statistics lines, in order of priority when space is short."""
WORST = "worst"
"""The sort order with the outliers first."""
WIDE_COLUMNS = 70
"""A wider table has room for longer node names."""


class RankTable(SortableTable):
    """The table with a line per rank. The cursor stays on its rank when the order changes."""

    table = "ranks"
    unsorted = WORST
    falling_columns = frozenset(column.name for column in COLUMNS if column.falling)
    DEFAULT_CSS: ClassVar[str] = "RankTable { height: 1fr; min-height: 3; }"

    def __init__(self, view: TrainingView) -> None:
        super().__init__(id="ranks")
        self.view = view
        self.statistics = len(STATISTICS)
        """Number of statistics lines that fit."""
        self.only_flagged = False
        self.rows: list[RankRow] = []
        self._columns: list[RankColumn] = []
        self._width, self._place, self._trend = 0, PLACE, 0
        self._made_for: Hashable = None
        self._worst: dict[int, Alert] = {}
        """For ranks known only from logs: rank -> its worst alert."""
        self._on: object = None
        """Rank and node under the cursor."""

    def prepare(self) -> None:
        reported = None if self.view_state.folder is None else self.view_state.snapshot
        made_for = (self.view.version, id(reported), self.sort_name, self.falling, self.only_flagged)
        self.pinned = 1 + self.statistics
        self._width = self.columns
        self._place = PLACE + max(0, min(9, (self._width - WIDE_COLUMNS) // 8))
        wanted = self.cockpit.preferences.columns.get(self.table, ())
        self._columns, left = choose(self._width - 3 - RANK - self._place, wanted)
        self._trend = trend_width(left)
        if made_for == self._made_for:
            return
        self._made_for = made_for
        self._worst = {} if reported is None else reported.worst_by_rank()
        rows = list(self.view.facts.rows) if self.view.facts else []
        if self.only_flagged:
            rows = [row for row in rows if self._severity(row) != "ok"]
        if self.sort_name == WORST:
            rows.sort(key=lambda row: -severity_level(self._severity(row)), reverse=self.falling)
        elif self.sort_name != "rank":
            column, now = next(c for c in COLUMNS if c.name == self.sort_name), self.view_state.now
            rows.sort(key=lambda row: column.order(row, now, self.falling), reverse=self.falling)
        elif self.falling:
            rows.reverse()
        self.rows = rows
        self.at = max(0, min(self.at, len(rows) - 1))
        if rows and self._on is not None and _identity(rows[self.at]) != self._on:
            self.at = next((i for i, row in enumerate(rows) if _identity(row) == self._on), self.at)

    def count(self) -> int:
        return self.pinned + len(self.rows)

    def key(self, line: int) -> Hashable:
        here = line - self.pinned == self.at
        return (
            self._made_for,
            tuple(each.name for each in self._columns),
            self._width,
            self.pinned,
            here and (1, self.has_focus),
        )

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return self._heading()
        if line < self.pinned:
            return self._statistic(STATISTICS[line - 1])
        rank, look, now = self.rows[line - self.pinned], self.look, self.view_state.now
        severity = self._severity(rank)
        name = UNKNOWN if rank.rank is None else f"{'~' * rank.inferred}{rank.rank}"
        place = rank.node if rank.gpu is None else f"{rank.node}:{rank.gpu}"
        trouble = trouble_of(rank)
        ground = look.text if rank.alive or rank.writer is not None else look.stale
        parts = [
            Segment(" "),
            look.mark(severity),
            Segment(" "),
            Segment(fit(name, RANK - 1, ">") + " ", look.strong),
        ]
        room = self._place - 1 - (len(trouble) + 1 if trouble else 0)
        where = fit(place, min(room, cell_len(clean(place))))
        parts += [Segment(where + " ", ground), Segment(trouble, look.severity[severity])]
        parts.append(Segment(" " * (room - cell_len(where) + (1 if trouble else 0))))
        parts += joined([cell for column in self._columns for cell in self._cell(rank, column, look, now)])
        parts += self._trends(rank)
        row = tuple(parts)
        if line - self.pinned != self.at:
            return row
        if self.has_focus:
            return highlighted(row, width, look.cursor)
        return (Segment(look.glyphs.cursor, look.title), *row[1:])

    def _severity(self, row: RankRow) -> Severity:
        """Return the rank's severity; in a folder of logs, that of its worst alert."""
        alert = None if row.rank is None else self._worst.get(row.rank)
        return severity_of(row) if alert is None else alert.severity

    @staticmethod
    def _cell(rank: RankRow, column: RankColumn, look: StyleSet, now: float) -> tuple[Cell, ...]:
        text = fit(column.text(rank, now), column.width, ">")
        if column.flag and column.flag in rank.flags:
            style = look.severity["warning"]
            return ((text + look.glyph("warning"), style),)
        late = rank.reported_late if column.source == "log" else rank.gpu_late and column.source == "gpu"
        return ((text + " ", look.stale if late else look.text),)

    def _trends(self, rank: RankRow) -> list[Segment]:
        """Return segments with the plots of the rank's GPU over the last 2 minutes.

        Empty if they are too wide or the GPU is unknown.
        """
        gpu = self.view_state.gpu(rank.node, rank.uuid) if self._trend and rank.uuid is not None else None
        if gpu is None:
            return []
        look, parts, points = self.look, [], self._trend * (2 if self.look.glyphs.braille else 1)
        style = look.severity["ok"] if rank.flags and not rank.gpu_late else look.dim
        for name, _, begins in TRENDS:
            _, high = METRICS[name].scale(gpu) or (0.0, 1.0)
            series = gpu.history.series(name, TREND_S, points, self.view_state.now)
            values = [None if value != value else value for value in series.tolist()]  # noqa: PLR0124 - NaN
            parts += [
                Segment("  "),
                Segment(sparkline(values, begins * high, high, self._trend, look.glyphs), style),
            ]
        return parts

    def _heading(self) -> Row:
        look = self.look
        parts = [Segment("   "), self._title("rank", "rank", RANK - 1, right=True), Segment(" ")]
        if self.only_flagged:
            ranks = len(self.view.facts.rows) if self.view.facts else 0
            parts.append(Segment(fit(f"{len(self.rows)}/{ranks}, ! all", self._place), look.title))
        else:
            parts.append(Segment(fit("node:GPU", self._place), look.dim))
        for column in self._columns:
            parts += [self._title(column.name, column.title, column.width, right=True), Segment(" ")]
        for _, title, _ in TRENDS if self._trend else ():
            parts.append(Segment("  " + fit(f"{title}, 2 min", self._trend), look.dim))
        return tuple(parts)

    def _title(self, name: str, title: str, width: int, *, right: bool) -> Segment:
        look, chosen = self.look, name == self.sort_name
        arrow = (look.glyphs.down if self.falling else look.glyphs.up) if chosen else ""
        return Segment(fit(arrow + title, width, ">" if right else "<"), look.title if chosen else look.dim)

    def _statistic(self, name: str) -> Row:
        look, facts = self.look, self.view.facts
        parts = [Segment("   "), Segment(fit(_TITLES[name], RANK + self._place), look.dim)]
        for column in self._columns:
            apart = facts.spreads.get(column.flag) if facts and column.flag else None
            parts += self._figure(name, apart, column, facts)
        return tuple(parts)

    def _figure(
        self, name: str, apart: Spread | None, column: RankColumn, facts: JobFacts | None
    ) -> list[Segment]:
        look = self.look
        if apart is None:
            return [Segment(" " * (column.width + 1))]
        late = (
            column.source == "log" and facts is not None and facts.late(facts.stepped_at, self.view_state.now)
        )
        style: Style = look.stale if late else look.dim
        if name == "imbalance":
            text = UNKNOWN if apart.imbalance is None else f"{min(999, 100 * apart.imbalance):.0f}%"
            if apart.flagged:
                return [Segment(fit(text, column.width, ">"), look.severity["warning"]), look.mark("warning")]
        else:
            text = column.write(getattr(apart, _FIGURES[name]))
        return [Segment(fit(text, column.width, ">") + " ", style)]

    # ---- gestures

    def chosen(self) -> RankRow | None:
        return self.rows[self.at] if self.at < len(self.rows) else None

    def go(self, item: int) -> None:
        """Move the cursor to a line and remember its rank."""
        item = max(0, min(item, len(self.rows) - 1))
        self._on = _identity(self.rows[item]) if self.rows else None
        super().go(item)

    def sort_next(self) -> None:
        """Sort by the next visible column; after the last one, by the outliers."""
        shown = [WORST, "rank", *(column.name for column in self._columns)]
        at = shown.index(self.sort_name) if self.sort_name in shown else -1
        self.sort_by(shown[(at + 1) % len(shown)])

    def click_title(self, x: int) -> None:
        left = 3 + RANK + self._place
        if x < 3 + RANK:
            self.sort_by("rank")
        for column in self._columns:
            if left <= x <= left + column.width and column.name in SORTS:
                self.sort_by(column.name)
            left += column.width + 1

    def copy_text(self) -> str:
        return text_of(self.row(self.at + self.pinned, self.columns)) if self.rows else ""


_TITLES = {"imbalance": "(max - min) / mean", "mean": "mean", "std": "std", "min": "min", "max": "max"}
_FIGURES = {"mean": "mean", "std": "std", "min": "least", "max": "most"}


def _identity(row: RankRow) -> tuple[object, str]:
    return row.rank if row.rank is not None else row.file, row.node


def severity_of(row: RankRow) -> Severity:
    """Return a rank's severity: critical for a lost or silent GPU, warning for an outlier, else ok.

    Unknown if it has ended, or neither its process nor its log is current.
    """
    if row.gpu_state == "lost" or (row.gpu_at is not None and row.gpu_late and row.alive):
        return "critical"
    if row.ended:
        return "unknown"
    if row.flags:
        return "warning"
    return "ok" if row.alive or (row.writer is not None and not row.reported_late) else "unknown"


def trouble_of(row: RankRow) -> str:
    """Return `lost` or `stuck` (its GPU), `ended` (its process) or `stale` (its values), else "".

    If several apply, the first one is returned.
    """
    if row.gpu_state in ("lost", "stuck"):
        return row.gpu_state
    return "ended" if row.ended else "stale" if row.gpu_at is not None and row.gpu_late else ""
