"""The list of problems: incidents, current conditions with their evidence, ended jobs, newest events."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import ClassVar

from msgspec import structs
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.health.remedies import remedy_for
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.past_jobs.text import outcome_text
from gpuwatch.diagnose.straggler.alerts import sentence
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import plural
from gpuwatch.tui.fleet.problems.problem_item import ProblemItem, general_reason, gpu_of
from gpuwatch.tui.model.alert_snapshot import acknowledged_text, problem_text, severity_shown, sign_shown
from gpuwatch.tui.toolkit.lines.item_page import MultiLinePage, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, highlighted, note, text_of, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.toolkit.text import attempt_words, event_clock, event_detail, event_title, evidence_text

MAX_LISTED = 100
"""Maximum number of conditions, and of events, that are listed."""
MAX_INCIDENTS = 5
"""Maximum number of incidents listed; more would push the active problems off the screen."""
MAX_PLACE_WIDTH = 24


class ActiveProblems(MultiLinePage):
    """The widget with the list of problems; the cursor moves over all of them."""

    DEFAULT_CSS: ClassVar[str] = "ActiveProblems { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="situation")
        self.entries: list[ProblemItem] = []

    # ---- what is listed

    def incidents(self) -> Iterator[ProblemItem]:
        """Yield items for the active incidents: unacknowledged ones first, then the newest."""
        wall = self.view_state.wall()
        for incident in sorted(self.view_state.snapshot.incidents, key=lambda each: each.acknowledged):
            if not incident.over:
                taken = acknowledged_text(incident.acknowledged_at, wall) if incident.acknowledged else ""
                ago, do = self.view_state.ago(incident.first), first_step(incident)
                yield ProblemItem(
                    ("incident", incident.id), severity_shown(incident), "", None, incident.headline,
                    ", ".join(filter(None, (taken, ago))), do, incident=incident.id,
                    code=incident.code, sign=sign_shown(incident),
                )  # fmt: skip

    def conditions(self) -> Iterator[ProblemItem]:
        """Yield items for the nodes' conditions, the worst first, then for failed links that reconnect.

        Nodes that were never reached for the same reason are one item.
        """
        overview, now = self.cockpit.overview, self.view_state.now
        unreached, stragglers = self._unreached(), list(self._stragglers())
        for name, condition in islice(self.cockpit.totals.worst, MAX_LISTED):
            if condition.severity not in GRAVE:
                yield from stragglers
                stragglers = []
            view = overview.views[name]
            reason = general_reason(condition.text, view.node)
            alike = unreached.get(reason, [])
            if len(alike) > 1 and condition.code == "node_lost" and name in alike:
                if name == alike[0]:
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
            yield ProblemItem(
                (name, condition.code, condition.gpu), condition.severity, name,
                gpu_of(view, condition.gpu), condition.text,
                "; ".join(part for part in (evidence, next_try) if part),
                remedy_for(condition, view.node), code=condition.code,
            )  # fmt: skip
        yield from stragglers
        yield from self._failing()

    def _stragglers(self) -> Iterator[ProblemItem]:
        """Yield items for the ranks that slow their job, with the figures that prove it."""
        views = self.cockpit.overview.views
        for alert in islice(self.view_state.snapshot.stragglers, MAX_LISTED):
            view = None if alert.node is None else views.get(alert.node)
            proof = "; ".join(each.text for each in alert.proof[:2])
            gpu = None if view is None else gpu_of(view, alert.gpu)
            yield ProblemItem(
                ("straggler", alert.id), alert.severity, alert.node or "", gpu,
                sentence(structs.replace(alert, node=None, gpu=None)), proof, "", code=alert.code,
            )  # fmt: skip

    def _unreached(self) -> dict[str, list[str]]:
        """Return reason -> names of the nodes that were never reached for this reason."""
        views, found = self.cockpit.overview.views, dict[str, list[str]]()
        for name, condition in self.cockpit.totals.worst:
            node = views[name].node
            if condition.code == "node_lost" and node.hello is None:
                found.setdefault(general_reason(condition.text, node), []).append(name)
        return found

    def _failing(self) -> Iterator[ProblemItem]:
        """Yield an item for each node whose link failed and is connecting again."""
        overview, now = self.cockpit.overview, self.view_state.now
        failing = (v for v in overview.views.values() if v.state == "connecting" and v.node.link.reason)
        for view in islice(failing, MAX_LISTED):
            words = attempt_words(view.node, now)
            yield ProblemItem(
                (view.name, "node_lost", None), "warning", view.name, None, view.node.link.reason, words, "",
                code="node_lost",
            )  # fmt: skip

    def ended_jobs(self) -> Iterator[ProblemItem]:
        """Yield items for jobs that ended before gpuwatch connected: how each ended, what failed first."""
        reported, wall = self.view_state.snapshot, self.view_state.wall()
        of_job = {incident.job: incident for incident in reported.incidents if not incident.over}
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
            (totals.criticals, totals.warnings, len(totals.worst), tuple(totals.states.values())),
            (len(reported), reported[-1] if reported else None),
        )

    def build(self, width: int) -> list[Row]:
        if self.view_state.folder is not None:
            return self._build_of_logs(width)
        active, wrong, happened = list(self.incidents()), list(self.conditions()), list(self.events())
        first = active[:MAX_INCIDENTS]
        ended = list(self.ended_jobs())
        self._take_entries([*first, *wrong, *ended, *happened])
        place = min(MAX_PLACE_WIDTH, max((cell_len(entry.place) for entry in self.entries), default=0))
        rows: list[Row] = []
        if first:
            rows.append(self._incident_heading(first, width))
        for index, entry in enumerate(first):
            self._add_incident(rows, entry, index, width, dated=len(first) > 1)
        if others := len(active) - len(first):
            rows.append(
                note(f"and {others} more; {self.cockpit.key_of('app.incidents')} lists all", self.look)
            )
        rows.append(heading("Active problems", width, self.look, self._counts_text()))
        for index, entry in enumerate(wrong, len(first)):
            self._add(rows, entry, index, place, width)
        left = len(self.cockpit.totals.worst) - MAX_LISTED
        if left > 0:
            more = self.cockpit.key_of("fleet.unhealthy")
            rows.append(note(f"and {left} more; {more} shows unhealthy nodes only", self.look))
        if not wrong:
            rows.append(self._empty_row())
        if ended:
            rows.append(heading("Ended jobs", width, self.look))
        for index, entry in enumerate(ended, len(first) + len(wrong)):
            self._add_incident(rows, entry, index, width)
        rows.append(heading("Recent events", width, self.look))
        for index, entry in enumerate(happened, len(first) + len(wrong) + len(ended)):
            self._add(rows, entry, index, place, width)
        if not happened:
            rows.append(note("no events since start", self.look))
        return rows

    def _build_of_logs(self, width: int) -> list[Row]:
        """Return the rows for a folder of logs: the incidents, then how the job ended.

        No values are known.
        """
        first, jobs = list(self.incidents()), list(self.ended_jobs())
        self._take_entries([*first, *jobs])
        rows: list[Row] = []
        if first:
            rows.append(self._incident_heading(first, width))
        for index, entry in enumerate(self.entries):
            if index == len(first):
                rows.append(heading("Job", width, self.look, self._counts_text()))
            self._add_incident(rows, entry, index, width, dated=len(first) != 1 or index > 0)
        if not jobs:
            rows.append(note("the logs are being read", self.look))
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
        return f"{counts}; {self.cockpit.key_of('app.incidents')}: list" if counts else ""

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
        if any(not incident.over for incident in reported.incidents):
            return note("none besides the incidents", self.look)
        if reported.loudest is not None:
            severity = reported.loudest.severity
            text = clean(f" {reported.loudest.title}: {reported.loudest.text}")
            return (self.look.mark(severity), Segment(text, self.look.severity[severity]))
        if reported.error_lines:
            return (self.look.mark("info"), Segment(f" {reported.error_words}", self.look.severity["info"]))
        return (self.look.mark("ok"), Segment(" no problems detected", self.look.severity["ok"]))

    def _add_incident(
        self, rows: list[Row], entry: ProblemItem, index: int, width: int, *, dated: bool = True
    ) -> None:
        """Append the rows of an incident or ended job: its whole sentence; under the cursor, what to do.

        `dated`: also its age and other details; those of a single incident are in the heading.
        """
        self._starts.append(len(rows))
        look, here = self.look, index == self.at
        head = (entry.mark(look), Segment(" "))
        lines = hanging(head, entry.text, width, look.severity[entry.severity] + look.strong)
        on = here and self.has_focus
        rows += [highlighted(line, width, look.cursor) for line in lines] if on else lines
        if here:
            rows += self._remedy(entry, width)
            if dated:
                rows += wrapped(entry.detail, width, look.dim, indent=4)

    def _remedy(self, entry: ProblemItem, width: int) -> list[Row]:
        if not entry.remedy:
            return []
        return wrapped(f"{self.look.glyphs.slope} {entry.remedy}", width, self.look.text, indent=4)

    def _add(self, rows: list[Row], entry: ProblemItem, index: int, place: int, width: int) -> None:
        """Append the line of a condition or event; under the cursor its whole text, details and remedy."""
        self._starts.append(len(rows))
        lines: Sequence[Row] = (entry_row(entry, place, width, self.look),)
        here, left = index == self.at, ""
        if here and not text_of(lines[0]).endswith(clean(entry.detail or entry.text)):
            lines, left = (entry_row(replace(entry, detail=""), place, width, self.look),), entry.detail
            if not text_of(lines[0]).endswith(clean(entry.text)):
                style = self.look.severity[entry.severity]
                lines = hanging(entry_head(entry, place, self.look), entry.text, width, style)
        on = here and self.has_focus
        rows += [highlighted(line, width, self.look.cursor) for line in lines] if on else lines
        if here:
            rows += wrapped(left, width, self.look.dim, indent=4)
            rows += self._remedy(entry, width)

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
    """Return the text of the first step: that of the hang query, else that of the failure class."""
    for what, command in incident.hang_check.do if incident.hang_check is not None else ():
        return f"{what}: {command}"
    return next(iter(incident.do), "").replace("`", "")


def entry_head(entry: ProblemItem, place: int, look: StyleSet) -> Row:
    """Return the beginning of an entry's line: severity, time, and place in `place` cells."""
    return (
        entry.mark(look),
        Segment(f" {entry.clock}" if entry.clock else "", look.dim),
        Segment(f" {fit(entry.place, place)}  ", look.strong),
    )


def entry_row(entry: ProblemItem, place: int, width: int, look: StyleSet) -> Row:
    """Return the line of an entry: severity, time, place (`place` cells), text, and details if they fit."""
    style, head = look.severity[entry.severity], entry_head(entry, place, look)
    room = width - sum(part.cell_length for part in head)
    text, detail = clean(entry.text), clean(entry.detail)
    if cell_len(text) + 2 >= room or not detail:
        return (*head, Segment(fit(text, min(room, cell_len(text))), style))
    left = room - cell_len(text) - 2
    return (*head, Segment(text + "  ", style), Segment(fit(detail, min(left, cell_len(detail))), look.dim))
