"""The two lines at the top of every screen: the source and its state, and the worst problem."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.straggler.alerts import sentence as sentence_of
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import age_text, duration, plural, seconds_text
from gpuwatch.tui.chrome.folder_status import folder_counts, folder_state, folder_title
from gpuwatch.tui.chrome.status_counts import LEAST_COUNTS, StatusCounts, width_of
from gpuwatch.tui.chrome.timeline import Timeline
from gpuwatch.tui.model.alert_snapshot import (
    AlertSnapshot,
    acknowledged_text,
    alert_text,
    severity_shown,
)
from gpuwatch.tui.model.node_summary import Totals
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

WIDE_COLUMNS = 100
"""From this width, the first line has whole sentences."""
NOTED_BEHIND_S = 3.0
"""From this many seconds on, the line states how much the demo's clock is behind."""
_DATE = re.compile(r" at or after [\d :.,T-]+$")
"""Matches the time at the end of a headline if it is only a lower bound: ` at or after 12:03:11`."""
WHOLE = 1000
"""A width in columns at which no sentence is cut."""


def spread(left: list[Segment], right: list[Segment], width: int) -> Row:
    """Return one line with a left and a right part; if they do not fit, only the left part."""
    gap = width - width_of(left) - width_of(right)
    return (*left, Segment(" " * gap), *right) if gap >= 0 else tuple(left)


def _cut(segments: list[Segment], width: int) -> list[Segment]:
    """Return the first segments of a line that fit into `width` cells; the last of them may be shortened."""
    kept: list[Segment] = []
    for segment in segments:
        room = width - width_of(kept)
        if segment.cell_length > room:
            return [*kept, Segment(fit(segment.text, room), segment.style)] if room > 1 else kept
        kept.append(segment)
    return kept


def worst(totals: Totals, stragglers: Sequence[Alert], look: StyleSet, width: int) -> list[Segment]:
    """Return the segments with the worst condition or straggler, and how many others there are.

    A rank that slows its job precedes the warnings of its GPU, which only show the reason. Empty if there is
    none, or below 12 columns. An acknowledged rank comes last, and is muted.
    """
    known = [(each.severity, nodes, text, each.severity) for nodes, each, text in totals.listed]
    slow = [(each.severity, list[str](), sentence_of(each), severity_shown(each)) for each in stragglers]
    serious = sum(severity in GRAVE for severity, *_ in known)
    taken = [each for each in slow if each[0] != each[3]]
    problems = [*known[:serious], *(each for each in slow if each not in taken), *known[serious:], *taken]
    if not problems or width < 12:
        return []
    severity, nodes, sentence, shown = problems[0]
    place = f"{nodes[0] if len(nodes) == 1 else fold(nodes)}: " if nodes else ""
    more = f"  +{len(problems) - 1}" if len(problems) > 1 else ""
    style = look.severity[shown]
    text = clean(f"{look.glyph(severity)} {place}{sentence}")
    room = width - len(more) - 1
    if len(text) > room and not nodes:
        text = text.partition(",")[0]  # the rank, its share and the cause; the step times follow
    while len(text) > room and len(nodes) > 1 and ": " in text:
        text = text.rpartition(": ")[0]  # the reason that nodes share is shown whole or not at all
    if more and len(text) + len(" more") <= room:
        more += " more"
    return [Segment(fit(text, room) if len(text) > room else text, style), Segment(more + " ", look.dim)]


def quiet(reported: AlertSnapshot, look: StyleSet, width: int, wall: float) -> list[Segment]:
    """Return the segments for healthy nodes and GPUs: the worst alert, error lines, or "no problems".

    `wall`: now, in unix seconds. Below 12 columns, alert and error lines are left out (empty).
    """
    alert = reported.loudest
    if reported.error_lines and (alert is None or alert.acknowledged):
        text = f"{look.glyph('info')} {reported.error_words} "
        return [Segment(fit(text, min(len(text), width)), look.severity["info"])] if width >= 12 else []
    if alert is None:
        text = f"{look.glyph('ok')} no problems detected "
        return [Segment(text, look.severity["ok"])]
    return _alert_segments(alert, look, width, wall)


def _alert_segments(alert: Alert, look: StyleSet, width: int, wall: float) -> list[Segment]:
    text = clean(f"{look.glyph(alert.severity)} {alert_text(alert, wall)} ")
    style = look.severity[severity_shown(alert)]
    return [Segment(fit(text, min(len(text), width)), style)] if width >= 12 else []


def sentence(incident: Incident, look: StyleSet, width: int, wall: float) -> list[Segment]:
    """Return the segments of an incident's headline, cut to `width`; empty below 12 columns.

    A headline that does not fit is replaced by its main clause. `wall`: now, in unix seconds.
    """
    if width < 12:
        return []
    taken = _taken(incident, wall)
    whole = f"{taken}{incident.headline}"
    reported = whole if len(whole) <= width else f"{taken}{main_clause(incident)}"
    if len(reported) > width:
        reported = _DATE.sub("", reported)
    style = look.dim if incident.acknowledged else look.badge[incident.severity]
    if len(reported) + 2 <= width:
        reported = f" {reported} "
    return [Segment(fit(reported, min(width, len(reported))), style)]


def main_clause(incident: Incident) -> str:
    """Return the headline up to its first semicolon: rank, node, GPU and cause, no affected ranks."""
    return incident.headline.partition("; ")[0]


def _taken(incident: Incident, wall: float) -> str:
    """Return the prefix of an acknowledged incident's sentence, `acknowledged 08:33: `; "" for others."""
    return f"{acknowledged_text(incident.acknowledged_at, wall)}: " if incident.acknowledged else ""


class StatusLine(RebuiltPage, can_focus=False):
    """The status bar: product name, source and clock above counts and the worst problem.

    A replay has a third line with the timeline.
    """

    DEFAULT_CSS: ClassVar[str] = "StatusLine { height: 2; background: $surface; overflow-y: hidden; }"
    can_focus = False
    in_first_frame = True
    _timeline: Timeline | None = None

    def on_mount(self) -> None:
        if self.view_state.replay is not None:
            self.styles.height = 3

    class Clicked(Message):
        """Posted when the line with the incident is clicked."""

    def on_click(self, event: events.Click) -> None:
        if event.y == 1:
            self.post_message(self.Clicked())

    def build(self, width: int) -> list[Row]:
        lines = [self._first(width), self._second(width)]
        if self.view_state.replay is not None:
            self._timeline = self._timeline or Timeline(self.view_state.replay)
            lines.append(self._timeline.row(self.look, width))
        return lines

    def _about_source(self, width: int) -> list[Segment]:
        """Return the segments about the pace of the source; empty if there is nothing to say.

        They are the time left to a Slurm job (on a wide screen), Prometheus's scrape interval, and the longer
        interval of a busy machine.
        """
        look, view_state, left = self.look, self.view_state, []
        allocation = view_state.fleet.scheduler.allocation(view_state.scope.job)
        if allocation is not None and allocation.ends is not None and width >= WIDE_COLUMNS:
            left_s = allocation.ends - view_state.wall()
            remaining = f"{duration(left_s)} left" if left_s > 0 else "time limit reached"
            left.append(Segment(f"{remaining}  ", look.dim))
        if any(spec.link == "prometheus" for spec in view_state.plan.nodes[:1]):
            badge = f" every {view_state.plan.interval_s:.0f} s "
            left += [Segment(badge, look.badge["info"]), Segment(" ")]
        if view_state.fleet.interval_s > view_state.plan.interval_s:
            badge = f" busy: every {view_state.fleet.interval_s:.0f} s "
            left += [Segment(badge, look.badge["warning"]), Segment(" ")]
        return left

    def _first(self, width: int) -> Row:
        look, view_state = self.look, self.view_state
        left = [Segment(" gpuwatch ", look.brand), Segment(" ")]
        left += [*self._source(width), *self._about_source(width)]
        if view_state.scope.job is not None:
            name = clean(view_state.scope.job)
            left += [Segment(f" only job {fit(name, min(24, len(name)))} ", look.badge["warning"])]
            jobs = f" {self.cockpit.key_of('app.jobs')}: all  "
            left += [Segment(jobs if width >= WIDE_COLUMNS else " ", look.dim)]
        if view_state.frozen:
            banner = f" FROZEN {seconds_text(view_state.frozen_for()).strip()} ago "
            resume = f" {self.cockpit.key_of('app.freeze')}: resume  "
            left += [Segment(banner, look.badge["critical"]), Segment(resume, look.dim)]
        parts = self._right(width)
        for droppable in ("rate", "probe", "delivery", "faults", "recording"):
            if width_of(left) + sum(map(width_of, parts.values())) <= width:
                break
            parts[droppable] = []
        right = [segment for part in parts.values() for segment in part]
        return spread(_cut(left, width - width_of(right)), right, width)

    def _right(self, width: int) -> dict[str, list[Segment]]:
        """Return name -> segments of the parts at the right end of the first line, from left to right.

        The clock is the last; a part may be empty.
        """
        look, pace, cockpit = self.look, self.cockpit.pace, self.cockpit
        rate = f"{pace.hz:g} Hz "
        parts: dict[str, list[Segment]] = {
            "probe": [], "faults": [], "recording": [], "delivery": [], "rate": [],
            "clock": [Segment(self._clock(), look.strong)],
        }  # fmt: skip
        if faults := cockpit.faults.count:
            parts["faults"] = [Segment(f" {plural(faults, 'fault')} of gpuwatch ", look.badge["error"])]
        if (switch := cockpit.recording) is not None and switch.status:
            style = look.badge["error" if switch.trouble else "warning"]
            status = clean(switch.status)
            parts["recording"] = [Segment(f" {fit(status, min(len(status), width // 2))} ", style)]
        if cockpit.delivery is not None and (trouble := clean(cockpit.delivery.trouble)):
            trouble = trouble if width >= WIDE_COLUMNS else trouble.partition(":")[0]
            text = f" {fit(trouble, min(len(trouble), width // 2))} "
            parts["delivery"] = [Segment(text, look.badge["warning"])]
        if pace.slowed:
            text = f"refresh lowered to {rate}(slow terminal)  "
            parts["rate"] = [Segment(text, look.severity["warning"])]
        elif pace.hz != cockpit.asked_hz:
            parts["rate"] = [Segment(rate + " ", look.dim)]
        parts["probe"] = self._links(width - sum(map(width_of, parts.values())))
        return parts

    def _source(self, width: int) -> list[Segment]:
        """Return the segments that name the source of the data: nodes, a simulation, a recording or logs."""
        look, view_state = self.look, self.view_state
        left: list[Segment] = []
        if self.cockpit.shared_view is not None:
            left += [Segment(f" {self.cockpit.shared_view.badge} ", look.badge["info"]), Segment(" ")]
        if view_state.replay is not None:
            left += [Segment(" RECORDING ", look.badge["warning"]), Segment(" ")]
        if view_state.demo:
            words = " simulated, nothing here is real  " if width >= WIDE_COLUMNS else " simulated  "
            left += [Segment(" DEMO ", look.badge["warning"]), Segment(words, look.dim)]
            if (behind_s := view_state.behind_s()) >= NOTED_BEHIND_S:
                behind = f"{age_text(behind_s)} behind (busy machine)  "
                left.append(Segment(behind, look.severity["warning"]))
        elif view_state.folder is not None:
            left += folder_title(view_state.folder, view_state.plan.source, look, width)
        elif view_state.plan.source:
            left.append(
                Segment(fit(view_state.plan.source, min(40, len(view_state.plan.source))) + "  ", look.strong)
            )
        return left

    def _clock(self) -> str:
        """Return the shown time as text, with its date for a recording and for logs."""
        view_state = self.view_state
        past = view_state.replay is not None or view_state.folder is not None
        text = time.strftime(
            "%Y-%m-%d %H:%M:%S %Z " if past else "%H:%M:%S %Z ", time.localtime(view_state.wall())
        )
        return text if view_state.folder is None else f"logs end {text}"

    def _links(self, room: int) -> list[Segment]:
        """Return the segments about the newest probe: while it runs, or its result if bad.

        Empty on the links screen.
        """
        probes = self.view_state.session.probes
        if not probes or self.cockpit.where == "links":
            return []
        from gpuwatch.tui.model.probe_text import hint  # noqa: PLC0415 - the first paint need not wait for it

        if (reported := hint(probes[-1].results, self.cockpit.key_of("app.links"))) is None:
            return []
        severity, text = reported
        text = fit(text, min(len(text), room - 6))
        return (
            [self.look.mark(severity), Segment(f" {text}   ", self.look.severity[severity])] if text else []
        )

    def _second(self, width: int) -> Row:
        """Return the counts and, on the right, the most important statement that fits beside them."""
        look, totals, folder = self.look, self.cockpit.totals, self.view_state.folder
        reported = self.view_state.snapshot
        counts = StatusCounts.of(totals, reported, look)
        if folder is not None:
            counts = StatusCounts(folder_counts(self.view_state.fleet, look), alerts=counts.alerts)
        incident, stragglers = reported.leading, reported.stragglers
        if (own := self.view_state.scope.own_warning(reported)) is not None:
            left = counts.fitting(width - len(alert_text(own, 0.0)) - 3, least=LEAST_COUNTS)
            room, wall = width - width_of(left) - 1, self.view_state.wall()
            return spread(left, _alert_segments(own, look, room, wall), width)
        if incident is not None:
            wall = self.view_state.wall()
            needed = len(_taken(incident, wall)) + len(main_clause(incident)) + 1
            left = counts.fitting(width - needed, least=1 if incident.acknowledged else 0)
            text = sentence(incident, look, width - width_of(left) - 1, wall)
            return spread(max(left, counts.fitting(width - width_of(text) - 1), key=width_of), text, width)
        if folder is not None:
            left = counts.fitting(width)
            return spread(left, folder_state(self.view_state, look, width - width_of(left) - 1), width)
        if stragglers and not any(each.severity != "warning" for _, each in totals.worst[:1]):
            left = counts.fitting(width - len(sentence_of(stragglers[0]).partition(",")[0]) - 8)
        else:  # why a node is not reached stands on the other parts of the screens
            known = [] if totals.worst and totals.worst[0][1].code == "node_lost" else totals.worst[:1]
            needed = width_of(worst(totals, (), look, WHOLE)) if known else 0
            left = counts.fitting(width - needed - 1, least=LEAST_COUNTS)
        trouble = worst(totals, stragglers, look, width - width_of(left) - 1)
        if not trouble and not totals.worst and totals.states["live"]:
            trouble = quiet(reported, look, width - width_of(left) - 1, self.view_state.wall())
        return spread(left, trouble, width)
