"""The list of all alerts of the session: one line each; many of one kind are folded into one line."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.diagnose.straggler.alerts import TITLE as STRAGGLER
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import age_text, plural
from gpuwatch.tui.model.alert_snapshot import Bundle, acknowledged_text, bundles, problem_text, standing
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note, text_of, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

STATE_COLUMNS, TIMES_COLUMNS, AGE_COLUMNS = 12, 6, 5
STATE_WIDE = len("acknowledged 08:33") + 1
"""Widths of the columns of the alert list, in cells."""
PLACE_WIDE, PLACE_NARROW, CODE = 26, 24, 24
WIDE_COLUMNS = 100


def place_of(alert: Alert) -> str:
    """Return the place of an alert, as far as known: `gpu-011 GPU 5  rank 85`, else its job, else `-`."""
    gpu = "" if alert.gpu is None else f" GPU {alert.gpu}"
    rank = "" if alert.rank is None else f"rank {alert.rank}"
    known = "  ".join(part for part in (f"{alert.node or ''}{gpu}".strip(), rank) if part)
    return known or (f"job {alert.job}" if alert.job else "-")


class Cells(Struct, frozen=True):
    """The values of the cells of one line; `since_s` and `last_s` are seconds ago."""

    severity: Severity
    standing: str
    code: str
    place: str
    text: str
    count: int
    since_s: float
    last_s: float


def alert_cells(alert: Alert, wall: float) -> Cells:
    """Return the cells of one alert; `wall` is the current time in unix seconds."""
    return Cells(
        alert.severity, _standing_text(alert), alert.code, place_of(alert), alert.text or alert.title,
        alert.count, wall - alert.first, wall - alert.last,
    )  # fmt: skip


def _standing_text(alert: Alert) -> str:
    state = standing(alert)
    return acknowledged_text(alert.acknowledged_at) if state == "acknowledged" else state


def bundle_cells(bundle: Bundle, wall: float) -> Cells:
    """Return the cells of several alerts of one kind; `wall` is the current time in unix seconds."""
    first = bundle.alerts[0]
    worst = min((alert.severity for alert in bundle.alerts), key=ORDER.index)
    ranks, nodes = bundle.ranks, bundle.nodes
    place = plural(len(ranks), "rank") if ranks else plural(len(nodes), "node")
    text = f"{first.title}; {ranks_text(ranks) if ranks else fold(nodes)}"
    if not ranks and len(nodes) == 1:
        place, text = nodes[0], first.title
    last = wall - max(alert.last for alert in bundle.alerts)
    return Cells(
        worst, _standing_text(first), first.code, place, text, bundle.count, wall - first.first, last
    )  # fmt: skip


def cells_row(cells: Cells, width: int, look: StyleSet) -> Row:
    """Return the line of an alert or of several of one kind."""
    fires, wide = cells.standing == "firing", width >= WIDE_COLUMNS
    text = look.text if fires else look.dim
    sign = look.mark(cells.severity) if fires else Segment(look.glyph(cells.severity), look.dim)
    counted = cells.place.startswith(f"{cells.count} ")  # `127 ranks` states the count
    times = f"x{cells.count}" if cells.count > 1 and not counted else ""
    first, last = (age_text(max(0.0, age)).rjust(AGE_COLUMNS) for age in (cells.since_s, cells.last_s))
    head = [
        Segment(" "),
        sign,
        Segment(f" {_state(cells, wide=wide)}", text),
        Segment(first + (last if wide else "") + "  ", look.dim),
        Segment(fit(times, TIMES_COLUMNS) if wide else "", look.text if fires else look.dim),
        Segment(
            fit(cells.place, PLACE_WIDE if wide else PLACE_NARROW) + " ", look.strong if fires else look.dim
        ),
        Segment(fit(cells.code, CODE) + " " if wide else "", look.dim),
    ]
    what = cells.text if wide or not times else f"{times} {cells.text}"
    room = width - sum(part.cell_length for part in head)
    return (*head, Segment(fit(what, max(0, room)), text))


def _state(cells: Cells, *, wide: bool) -> str:
    """Return the state in its column; a narrow one has no room for the time of an acknowledgement."""
    return fit(cells.standing, STATE_WIDE) if wide else fit(cells.standing.partition(" ")[0], STATE_COLUMNS)


def cut_text(cells: Cells, row: Row, width: int, look: StyleSet) -> tuple[Row, ...]:
    """Return the lines with the place, text and code of an alert whose `row` shows them cut; else none."""
    if text_of(row).endswith(clean(cells.text).rstrip()) and cell_len(clean(cells.place)) <= PLACE_NARROW:
        return ()
    return tuple(wrapped(f"{cells.place}: {cells.text} ({cells.code})", width, look.text, indent=3))


class AlertList(ItemPage):
    """The widget with all alerts of the session, one per line.

    A line that folds several alerts of one kind can be unfolded.
    """

    DEFAULT_CSS = "AlertList { height: 8; }"
    pinned = 2

    def __init__(self) -> None:
        super().__init__(id="alerts")
        self.only_firing = False
        self._open: set[tuple[str, str]] = set()

    def made_for(self) -> Hashable:
        return id(self.view_state.snapshot), self.only_firing, frozenset(self._open)

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        reported, wall, look = self.view_state.snapshot, self.view_state.wall(), self.look
        shown = bundles(reported.alerts, only_firing=self.only_firing)
        yield heading("Alerts", width, look, self._counts_text())
        yield self._columns(width)
        for bundle in shown:
            if bundle.folded:
                yield self._item(bundle.key, bundle_cells(bundle, wall), width, bundle.alerts[0])
            if not bundle.folded or bundle.key in self._open:
                for alert in bundle.alerts:
                    text = f"{alert.code}  {place_of(alert)}  {alert.text or alert.title}"
                    yield self._item(alert.id, alert_cells(alert, wall), width, alert, clean(text))
        if not shown:
            hidden = self.only_firing and reported.alerts
            yield note(f"none firing; {self._all_key()} shows all" if hidden else "none", look)

    def _item(self, key: Hashable, cells: Cells, width: int, alert: Alert, text: str = "") -> PageItem:
        row = cells_row(cells, width, self.look)
        more = cut_text(cells, row, width, self.look)
        if (
            alert.title == STRAGGLER
            and standing(alert) == "firing"
            and not self.view_state.snapshot.incidents
        ):
            return PageItem(key, (row, *more), alert, text)  # then it is what the screen is read for
        return PageItem(key, (row,), alert, text, more)

    def _all_key(self) -> str:
        return self.cockpit.key_of("fleet.unhealthy")

    def _counts_text(self) -> str:
        """Return the counts of the list: `468 alerts of 11 kinds: 4 critical, 3 errors, 1 warning`.

        Each kind is one line, and the severities are counted by kind.
        """
        reported = self.view_state.snapshot
        only = f"firing only, {self._all_key()} shows all  " if self.only_firing else ""
        alerts, kinds = len(reported.alerts), len({each.code for each in reported.alerts.values()})
        of_kinds = f" of {plural(kinds, 'kind')}" if kinds < alerts else ""
        total = f"{plural(alerts, 'alert')}{of_kinds}" if alerts else ""
        return only + ": ".join(part for part in (total, problem_text(reported)) if part)

    def _columns(self, width: int) -> Row:
        wide = width >= WIDE_COLUMNS
        ages = "since".rjust(AGE_COLUMNS) + ("last".rjust(AGE_COLUMNS) if wide else "")
        place = fit("where", PLACE_WIDE if wide else PLACE_NARROW)
        code = fit("code", CODE) + " " if wide else ""
        times = fit("times", TIMES_COLUMNS) if wide else ""
        names = f"   {fit('state', STATE_WIDE if wide else STATE_COLUMNS)}{ages}  {times}{place} {code}what"
        return (Segment(fit(names, width), self.look.dim),)

    def toggle_fold(self) -> bool:
        """Unfold the line under the cursor, or fold it again; return False if it is a single alert."""
        item = self.chosen()
        if item is None or not isinstance(item.key, tuple):
            return False
        self._open ^= {item.key}
        self.pull()
        return True

    def chosen_alerts(self) -> tuple[Alert, ...]:
        """Return the alert under the cursor, or all alerts of its folded line; empty without alerts."""
        item = self.chosen()
        if item is None:
            return ()
        for bundle in bundles(self.view_state.snapshot.alerts):
            if bundle.key == item.key:
                return bundle.alerts
        return () if item.alert is None else (item.alert,)
