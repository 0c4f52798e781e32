"""The list of problems: incidents, current conditions with their evidence, ended jobs, newest events."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar, TypeAlias

from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex
from gpuwatch.diagnose.alerts.held_conditions import key
from gpuwatch.diagnose.health.remedies import remedy_for
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.past_jobs.text import outcome_text
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import plural
from gpuwatch.tui.fleet.problems.alert_items import (
    alert_row,
    marked,
    probed_item,
    straggler_item,
)
from gpuwatch.tui.fleet.problems.problem_item import ProblemItem, gpu_of
from gpuwatch.tui.fleet.problems.problem_rows import line_rows, sentence_rows
from gpuwatch.tui.model.alert_snapshot import (
    acknowledged_text,
    problem_text,
    severity_shown,
    sign_shown,
)
from gpuwatch.tui.toolkit.lines.item_page import MultiLinePage
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note
from gpuwatch.tui.toolkit.styles import clean
from gpuwatch.tui.toolkit.text import attempt_words, event_clock, event_detail, event_title, evidence_text

Part: TypeAlias = "Row | Callable[[ProblemItem, bool, bool], list[Row]]"
"""A line between the entries, or a function that returns those of one: (entry, whole, cursor) -> rows."""
MAX_LISTED = 100
"""Maximum number of conditions, and of events, that are listed."""
MAX_INCIDENTS = 5
"""Maximum number of incidents listed; more would push the active problems off the screen."""
MAX_PLACE_WIDTH = 24
SPARE_LINES = 1
"""Lines below the list that stay free while entries besides the one under the cursor are shown whole."""


class ActiveProblems(MultiLinePage):
    """The widget with the list of problems; the cursor moves over all of them."""

    DEFAULT_CSS: ClassVar[str] = "ActiveProblems { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="situation")
        self.entries: list[ProblemItem] = []
        self.least_lines = 0
        """Number of lines with only the entry under the cursor shown whole."""

    # ---- what is listed

    def incidents(self) -> Iterator[ProblemItem]:
        """Yield items for the active incidents: the unacknowledged ones first, and each kind newest first."""
        wall = self.view_state.wall()
        for incident in sorted(self.view_state.snapshot.active, key=lambda each: each.acknowledged):
            taken = acknowledged_text(incident.acknowledged_at, wall) if incident.acknowledged else ""
            ago, do = self.view_state.ago(incident.first), first_step(incident)
            yield ProblemItem(
                ("incident", incident.id), severity_shown(incident), "", None, incident.headline,
                ", ".join(filter(None, (taken, ago))), do, incident=incident.id,
                code=incident.code, sign=sign_shown(incident),
            )  # fmt: skip

    def conditions(self) -> Iterator[ProblemItem]:
        """Yield items for what the link probe found, the nodes' conditions, and links that reconnect.

        The worst condition is first. Stragglers precede the first condition of lower severity than `GRAVE`.
        Nodes that were never reached for the same reason are one item. What an active
        incident reports in other words is left out. At most `MAX_LISTED` of each kind.
        """
        overview, now = self.cockpit.overview, self.view_state.now
        stragglers = list(self._stragglers())
        yield from self._probed()
        reported, wall = self.view_state.snapshot, self.view_state.wall()
        inside = AlertIndex(alert for incident in reported.active for alert in incident.alerts)
        for alike, condition, reason in islice(self.cockpit.totals.listed, MAX_LISTED):
            alert = reported.alerts.get(key(alike[0], condition))
            if (alert is None or alert.code != condition.code) and inside.states(alike[0], condition):
                continue
            if condition.severity not in GRAVE:
                yield from stragglers
                stragglers = []
            name = alike[0]
            view = overview.views[name]
            if len(alike) > 1:
                names = fold(alike)
                which = f": {names}" if cell_len(names) > MAX_PLACE_WIDTH else ""
                yield ProblemItem(
                    ("unreachable", reason), condition.severity, name, None, reason,
                    f"{len(alike)} nodes never connected{which}", remedy_for(condition, view.node),
                    nodes=names, code=condition.code,
                )  # fmt: skip
                continue
            evidence = evidence_text(condition.evidence, now - view.judged_at)
            next_try = attempt_words(view.node, now) if condition.code == "node_lost" else ""
            item = ProblemItem(
                (name, condition.code, condition.gpu), condition.severity, name,
                gpu_of(view, condition.gpu), condition.text,
                "; ".join(part for part in (evidence, next_try) if part),
                remedy_for(condition, view.node), code=condition.code,
            )  # fmt: skip
            yield marked(item, alert, wall)
        yield from stragglers
        yield from self._failing()

    def _stragglers(self) -> Iterator[ProblemItem]:
        """Yield items for at most `MAX_LISTED` ranks that slow their job."""
        wall = self.view_state.wall()
        for alert in islice(self.view_state.snapshot.stragglers, MAX_LISTED):
            yield straggler_item(alert, self._gpu_of(alert), wall)

    def _probed(self) -> Iterator[ProblemItem]:
        """Yield items for at most `MAX_LISTED` culprits of the newest link probe."""
        ago, wall = self.view_state.ago, self.view_state.wall()
        for alert in islice(self.view_state.snapshot.probed, MAX_LISTED):
            yield probed_item(alert, self._gpu_of(alert), ago(alert.first), wall)

    def _gpu_of(self, alert: Alert) -> Gpu | None:
        view = self.cockpit.overview.views.get(alert.node or "")
        return None if view is None else gpu_of(view, alert.gpu)

    def _failing(self) -> Iterator[ProblemItem]:
        """Yield an item for each node (at most `MAX_LISTED`) whose link failed and is connecting again."""
        overview, now = self.cockpit.overview, self.view_state.now
        failing = (v for v in overview.views.values() if v.state == "connecting" and v.node.link.reason)
        for view in islice(failing, MAX_LISTED):
            words = attempt_words(view.node, now)
            yield ProblemItem(
                (view.name, "node_lost", None), "warning", view.name, None, view.node.link.reason, words, "",
                code="node_lost",
            )  # fmt: skip

    def ended_jobs(self) -> Iterator[ProblemItem]:
        """Yield items for jobs that ended before gpuwatch connected: what failed first, else how each ended.

        At most `MAX_LISTED`.
        """
        reported, wall = self.view_state.snapshot, self.view_state.wall()
        of_job = {incident.job: incident for incident in reported.active}
        for job in islice(reported.ended, MAX_LISTED):
            incident = of_job.get(job.name)
            yield ProblemItem(
                ("ended", job.name),
                "info" if incident is None else incident.severity, "", None,
                outcome_text(job, incident, wall), f"last line {self.view_state.ago(job.last)}", "",
                incident="" if incident is None else incident.id,
                code="" if incident is None else incident.code, opens=next(iter(job.nodes), ""),
            )  # fmt: skip

    def events(self) -> Iterator[ProblemItem]:
        """Yield items for the events of nodes, the newest first, at most `MAX_LISTED`."""
        views = self.cockpit.overview.views
        newest = list(islice(reversed(self.view_state.fleet.events), MAX_LISTED))
        clocks = [event_clock(reported.event, self.view_state.wall()) for reported in newest]
        cells = max(map(len, clocks), default=0)
        for number, (reported, clock) in enumerate(zip(newest, clocks, strict=True)):
            event = reported.event
            gpu = views[reported.node].node.gpus.get(event.gpu) if event.gpu else None
            yield ProblemItem(
                (reported.node, reported.at, event.title, number),
                event.severity,
                reported.node,
                gpu,
                event_title(event),
                event_detail(event),
                event.remedy or "",
                clock.rjust(cells),
                code=event.event,
            )

    # ---- painting

    def made_for(self) -> Hashable:
        totals, reported = self.cockpit.totals, self.view_state.fleet.events
        return (
            id(self.view_state.snapshot),
            (len(totals.worst), tuple(totals.states.values())),
            [condition.text for _, condition in totals.worst[: self.size.height]],
            (len(reported), reported[-1] if reported else None),
            self.size.height,
        )

    def build(self, width: int) -> list[Row]:
        """Return the rows; incidents and conditions are shown whole, in their order, while there is room."""
        if self.view_state.folder is not None:
            return self._joined(self._parts_of_logs(width), 0)
        active, wrong, happened = list(self.incidents()), list(self.conditions()), list(self.events())
        first, ended = active[:MAX_INCIDENTS], list(self.ended_jobs())
        self._take_entries([*first, *wrong, *ended, *happened])
        place = min(MAX_PLACE_WIDTH, max((cell_len(entry.place) for entry in self.entries), default=0))
        own = self.view_state.scope.own_warning(self.view_state.snapshot) if first or wrong else None
        parts: list[Part] = [] if own is None else [alert_row(own, self.view_state.wall(), self.look)]
        if first:
            parts.append(self._incident_heading(first, width))
        parts += [partial(sentence_rows, width, self.look, dated=len(first) > 1)] * len(first)
        if others := len(active) - len(first):
            parts.append(
                note(f"and {others} more; {self.cockpit.key_of('app.incidents')} lists all", self.look)
            )
        parts.append(heading("Active problems", width, self.look, self._counts_text()))
        parts += [partial(line_rows, width, self.look, place)] * len(wrong)
        left = len(self.cockpit.totals.listed) - MAX_LISTED
        if left > 0:
            more = self.cockpit.key_of("fleet.unhealthy")
            parts.append(note(f"and {left} more; {more} shows unhealthy nodes only", self.look))
        if not wrong:
            parts.append(self._empty_row())
        if ended:
            parts.append(heading("Ended jobs", width, self.look))
        parts += [partial(sentence_rows, width, self.look)] * len(ended)
        recent = heading("Recent events", width, self.look)
        if happened:
            parts += [recent, *[partial(line_rows, width, self.look, place)] * len(happened)]
            return self._joined(parts, len(first) + len(wrong))
        none = [recent, note("no events since start", self.look)]
        rows = self._joined(parts, len(first) + len(wrong))
        self.least_lines += len(none)
        return rows + none if len(rows) + len(none) <= self.size.height else rows

    def _parts_of_logs(self, width: int) -> list[Part]:
        """Return the parts for a folder of logs: the incidents, then how the job ended.

        No values are known.
        """
        first, jobs = list(self.incidents()), list(self.ended_jobs())
        self._take_entries([*first, *jobs])
        parts: list[Part] = []
        if first:
            parts.append(self._incident_heading(first, width))
        parts += [partial(sentence_rows, width, self.look, dated=len(first) > 1)] * len(first)
        if jobs:
            parts.append(heading("Job", width, self.look, self._counts_text()))
        parts += [partial(sentence_rows, width, self.look)] * len(jobs)
        if not jobs:
            parts.append(note("the logs are being read", self.look))
        return parts

    def _joined(self, parts: Sequence[Part], most: int) -> list[Row]:
        """Return the rows of the parts; the first `most` entries are shown whole while there is room.

        The entry under the cursor always is. A remedy is shown once.
        """
        functions = [part for part in parts if callable(part)]
        cursor = self.at if self.has_focus else -1
        rows_of = [
            rows(entry, index == self.at, index == cursor)
            for index, (rows, entry) in enumerate(zip(functions, self.entries, strict=True))
        ]
        lines = len(parts) - len(functions) + sum(map(len, rows_of))
        self.least_lines = lines
        remedies = {entry.remedy for entry in self.entries[self.at : self.at + 1]}
        for index, entry in enumerate(self.entries[:most]):
            if index == self.at:
                continue
            new = entry if entry.remedy not in remedies else replace(entry, remedy="")
            whole = functions[index](new, True, False)
            lines += len(whole) - len(rows_of[index])
            if lines > self.size.height - SPARE_LINES:
                break
            rows_of[index] = whole
            remedies.add(entry.remedy)
        rows: list[Row] = []
        waiting = iter(rows_of)
        for part in parts:
            if callable(part):
                self._starts.append(len(rows))
                rows += next(waiting)
            else:
                rows.append(part)
        return rows

    def _take_entries(self, entries: list[ProblemItem]) -> None:
        """Replace the listed entries; the cursor stays on the same entry if it is still there."""
        self.entries = entries
        if entries and (self.at >= len(entries) or entries[self.at].key != self._on):
            self.at = next((i for i, entry in enumerate(entries) if entry.key == self._on), self.at)
        self._starts = []

    def _counts_text(self) -> str:
        reported = self.view_state.snapshot
        counts = problem_text(reported)
        return f"{self.cockpit.key_of('app.incidents')} lists by kind: {counts}" if counts else ""

    def _incident_heading(self, incidents: list[ProblemItem], width: int) -> Row:
        """Return the heading over the incidents: the age of a single one, and the key that opens them."""
        ways = f"{self.cockpit.key_of('app.incidents')}: details"
        if self.has_focus:
            ways = f"{self.cockpit.key_of('move.open')} or {ways}"
        if len(incidents) > 1:
            return heading("Incidents", width, self.look, ways)
        return heading("Incident", width, self.look, f"{incidents[0].detail}; {ways}")

    def _empty_row(self) -> Row:
        states = self.cockpit.totals.states
        if states["connecting"]:
            return note(f"{plural(states['connecting'], 'node')} connecting", self.look)
        reported = self.view_state.snapshot
        if (alert := reported.loudest_outside) is not None:
            return alert_row(alert, self.view_state.wall(), self.look)
        if reported.active:
            return note("none besides the incidents", self.look)
        if reported.error_lines:
            return (self.look.mark("info"), Segment(f" {reported.error_words}", self.look.severity["info"]))
        return (self.look.mark("ok"), Segment(" no problems detected", self.look.severity["ok"]))

    # ---- the cursor

    def items(self) -> int:
        return len(self.entries)

    def go(self, item: int) -> None:
        """Move the cursor to an entry, and remember its key for when the list changes."""
        item = max(0, min(item, len(self.entries) - 1))
        if self.entries:
            self._on = self.entries[item].key
        super().go(item)

    def chosen(self) -> ProblemItem | None:
        return self.entries[self.at] if self.at < len(self.entries) else None

    def copy_text(self) -> str:
        entry = self.chosen()
        if entry is None:
            return ""
        return "  ".join(clean(part) for part in (entry.clock, entry.place, entry.text, entry.detail) if part)


def first_step(incident: Incident) -> str:
    """Return the text of the first step: that of the hang query, else that of the failure class, else ""."""
    for what, command in incident.hang_check.do if incident.hang_check is not None else ():
        return f"{what}: {command}"
    return next(iter(incident.do), "").replace("`", "")
