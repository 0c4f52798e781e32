"""The list of all alerts of the session: one line each; many of one kind are folded into one line."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.diagnose.straggler.alerts import TITLE as STRAGGLER
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import age_text, is_ahead, plural
from gpuwatch.tui.model.alert_snapshot import Bundle, acknowledged_text, bundles, problem_text, standing
from gpuwatch.tui.model.node_summary import general_reason
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note, text_of, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

STATE_COLUMNS, TIMES_COLUMNS, AGE_COLUMNS = 12, 6, 5
STATE_WIDE, STATE_DATED = len("acknowledged 08:33"), len("acknowledged 2026-11-26 08:33")
"""Widths of the columns of the alert list, in cells."""
PLACE_WIDE, PLACE_NARROW, CODE = 26, 24, 24
MIN_STATE, MIN_PLACE, MIN_CODE = len("resolved"), 22, 22
"""Least widths: with the usual values of a column, a new alert does not move the columns behind it."""
LOST = "node_lost"
NO_REASONS: Mapping[str, Sequence[str]] = MappingProxyType({})
WIDE_COLUMNS, DATED_COLUMNS = 100, 130
"""Minimum widths of a list that shows the time of an acknowledgement, and of one that shows its date."""


class Widths(Struct, frozen=True):
    """The widths of the columns of a wide list: that of the longest value, between two limits."""

    state: int
    place: int
    code: int

    @classmethod
    def of(cls, lines: Sequence[Cells], width: int) -> Widths:
        """Return the widths for these lines, which may be none, in a list of `width` cells."""
        state, place, code = (
            max([least, *map(cell_len, values)])
            for least, values in (
                (MIN_STATE, [line.standing for line in lines]),
                (MIN_PLACE, [clean(line.place) for line in lines]),
                (MIN_CODE, [line.code for line in lines]),
            )
        )
        most = STATE_DATED if width >= DATED_COLUMNS else STATE_WIDE
        return cls(min(state, most) + 1, min(place, PLACE_WIDE), min(code, CODE))


def place_of(alert: Alert) -> str:
    """Return the place of an alert, as far as known: `gpu-011 GPU 5  rank 85`, else its job, else `-`."""
    gpu = "" if alert.gpu is None else f" GPU {alert.gpu}"
    rank = "" if alert.rank is None else f"rank {alert.rank}"
    known = "  ".join(part for part in (f"{alert.node or ''}{gpu}".strip(), rank) if part)
    return known or (f"job {alert.job}" if alert.job else "-")


class Cells(Struct, frozen=True):
    """The values of the cells of one line; `since_s` and `last_s` are seconds ago, negative in the future."""

    severity: Severity
    standing: str
    code: str
    place: str
    text: str
    count: int
    since_s: float
    last_s: float

    @property
    def times(self) -> str:
        """Return `x3`, or "" for a single alert or if the place states the count: `127 ranks`."""
        return f"x{self.count}" if self.count > 1 and not self.place.startswith(f"{self.count} ") else ""


def alert_cells(alert: Alert, wall: float) -> Cells:
    """Return the cells of one alert; `wall` is the current time in unix seconds."""
    return Cells(
        alert.severity, _standing_text(alert, wall), alert.code, place_of(alert), alert.text or alert.title,
        alert.count, wall - alert.first, wall - alert.last,
    )  # fmt: skip


def _standing_text(alert: Alert, wall: float) -> str:
    state = standing(alert)
    return acknowledged_text(alert.acknowledged_at, wall) if state == "acknowledged" else state


def reasons_of(bundle: Bundle, fleet: Fleet) -> dict[str, list[str]]:
    """Return reason -> nodes of lost nodes, whose reasons differ by the node's own name only; else empty.

    The reason of a single node is whole.
    """
    found: dict[str, list[Alert]] = {}
    for alert in bundle.alerts if bundle.alerts[0].code == LOST else ():
        node = fleet.nodes.get(alert.node or "")
        if node is not None:
            found.setdefault(general_reason(alert.text, node), []).append(alert)
    return {
        reason if len(alerts) > 1 else alerts[0].text: [alert.node or "" for alert in alerts]
        for reason, alerts in found.items()
    }


def bundle_cells(bundle: Bundle, wall: float, reasons: Mapping[str, Sequence[str]] = NO_REASONS) -> Cells:
    """Return the cells of several alerts of one kind.

    `wall` is the current time in unix seconds. `reasons` of lost nodes are the text instead of the title.
    """
    first = bundle.alerts[0]
    worst = min((alert.severity for alert in bundle.alerts), key=ORDER.index)
    ranks, nodes = bundle.ranks, bundle.nodes
    place = plural(len(ranks), "rank") if ranks else plural(len(nodes), "node")
    text = f"{first.title}; {ranks_text(ranks) if ranks else fold(nodes)}"
    if not ranks and len(nodes) == 1:
        place, text = nodes[0], first.title
    elif reasons:
        text = "; ".join(f"{fold(names)}: {reason}" for reason, names in reasons.items())
    last = wall - max(alert.last for alert in bundle.alerts)
    return Cells(
        worst, _standing_text(first, wall), first.code, place, text, bundle.count, wall - first.first, last
    )  # fmt: skip


def _age_text(age_s: float) -> str:
    """Return an age that fits `AGE_COLUMNS`; `ahead` for a time in the future."""
    return "ahead" if is_ahead(age_s) else age_text(max(0.0, age_s))


def cells_row(cells: Cells, widths: Widths | None, width: int, look: StyleSet) -> Row:
    """Return the line of an alert or of several of one kind. `widths`: of a wide list, else None."""
    fires, times = cells.standing == "firing", cells.times
    text = look.text if fires else look.dim
    sign = look.mark(cells.severity) if fires else Segment(look.glyph(cells.severity), look.dim)
    first, last = (_age_text(age).rjust(AGE_COLUMNS) for age in (cells.since_s, cells.last_s))
    head = [
        Segment(" "),
        sign,
        Segment(f" {_state(cells, widths)}", text),
        Segment(first + (last if widths else "") + "  ", look.dim),
        Segment(fit(times, TIMES_COLUMNS) if widths else "", look.text if fires else look.dim),
        Segment(
            fit(cells.place, widths.place if widths else PLACE_NARROW) + " ",
            look.strong if fires else look.dim,
        ),
        Segment(f"{fit(cells.code, widths.code)} " if widths else "", look.dim),
    ]
    what = cells.text if widths or not times else f"{times} {cells.text}"
    room = width - sum(part.cell_length for part in head)
    return (*head, Segment(fit(what, max(0, room)), text))


def _state(cells: Cells, widths: Widths | None) -> str:
    """Return the state in its column, without the time of an acknowledgement if that does not fit."""
    cells_wide = widths.state if widths else STATE_COLUMNS
    whole = cells.standing
    return fit(whole if len(whole) < cells_wide else whole.partition(" ")[0], cells_wide)


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
        lines = list(self._lines(shown, wall))
        widths = Widths.of([cells for _, cells, *_ in lines], width) if width >= WIDE_COLUMNS else None
        yield heading("Alerts", width, look, self._counts_text())
        yield self._columns(widths, width)
        for key, cells, alert, text in lines:
            yield self._item(key, cells, widths, width, alert, text)
        if not shown:
            hidden = self.only_firing and reported.alerts
            yield note(f"none firing; {self._all_key()} shows all" if hidden else "none", look)

    def _lines(self, shown: Iterable[Bundle], wall: float) -> Iterator[tuple[Hashable, Cells, Alert, str]]:
        """Yield the lines of folded and single alerts: key, cells, an alert, and the text to copy.

        The text of a folded line is "".
        """
        for bundle in shown:
            reasons = reasons_of(bundle, self.view_state.fleet)
            if bundle.folded:
                yield bundle.key, bundle_cells(bundle, wall, reasons), bundle.alerts[0], ""
            if not bundle.folded or bundle.key in self._open:
                for alert in bundle.alerts:
                    text = f"{alert.code}  {place_of(alert)}  {alert.text or alert.title}"
                    cells = alert_cells(alert, wall)
                    if bundle.folded and reasons:  # the line above has the reason
                        cells = replace(cells, text=alert.text.partition(":")[0])
                    yield alert.id, cells, alert, clean(text)

    def _item(
        self, key: Hashable, cells: Cells, widths: Widths | None, width: int, alert: Alert, text: str
    ) -> PageItem:
        row = cells_row(cells, widths, width, self.look)
        more = cut_text(cells, row, width, self.look)
        if (
            alert.title == STRAGGLER
            and standing(alert) == "firing"
            and not self.view_state.snapshot.incidents
        ):
            return PageItem(key, (row, *more), alert, text)  # then it is what the screen is read for
        if alert.code == LOST and more:  # the lines below have the reason
            short = replace(cells, text=cells.text.partition(":")[0])
            return PageItem(key, (cells_row(short, widths, width, self.look), *more), alert, text)
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

    def _columns(self, widths: Widths | None, width: int) -> Row:
        state, since = fit("state", widths.state if widths else STATE_COLUMNS), "since".rjust(AGE_COLUMNS)
        if widths is None:
            names = f"   {state}{since}  {fit('where', PLACE_NARROW)} what"
        else:
            last, times = "last".rjust(AGE_COLUMNS), fit("times", TIMES_COLUMNS)
            place, code = fit("where", widths.place), fit("code", widths.code)
            names = f"   {state}{since}{last}  {times}{place} {code} what"
        return (Segment(fit(names, width), self.look.dim),)

    def toggle_fold(self) -> bool:
        """Unfold the line under the cursor, or fold it again; return False if it does not fold alerts."""
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
