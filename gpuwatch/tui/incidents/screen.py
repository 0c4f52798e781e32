"""Screen 4: incidents (what failed first, why, what to do), and below them every alert."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.actions.action_targets import about_alert, about_incident
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.incidents.alert_list import AlertList, place_of
from gpuwatch.tui.incidents.cause_lines import CauseLines
from gpuwatch.tui.incidents.culprit_plots import CulpritPlots
from gpuwatch.tui.incidents.evidence_location import alert_with_line, location_after, location_of
from gpuwatch.tui.incidents.incident_detail import IncidentDetail, IncidentHead
from gpuwatch.tui.incidents.incident_list import IncidentList
from gpuwatch.tui.incidents.incident_timeline import IncidentMoments
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen, set_height
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import clean

FRAME_LINES = 3
"""Lines of the status bar (2) and the footer."""
BESIDE_COLUMNS = 110
"""From this width, the timeline is beside the detail."""
MAX_LISTED = 5
"""Maximum number of incidents visible at once."""
MIN_DETAIL_HEIGHT = 8
PLOTS_BODY, LINES_BODY = 34, 38
"""Lines of the body from which the plots are below the timeline, and the log lines below the detail."""
PLOTS_SHARE, LINES_SHARE = 3 / 5, 3 / 10
"""Their shares of the body: with fixed heights, they do not move with the text above them."""


class IncidentsScreen(LiveScreen):
    """The incidents and alerts; the cursor of the list selects the incident that is shown in full."""

    kind = "incidents"
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.INCIDENTS,
        *keys.borrowed("Incidents"),
    ]

    def __init__(self, ident: str | None = None) -> None:
        super().__init__()
        self._asked = ident
        self.incidents = IncidentList()
        self.head = IncidentHead()
        self.detail = IncidentDetail()
        self.moments = IncidentMoments()
        self.alerts = AlertList()
        self.plots = CulpritPlots()
        self.lines = CauseLines()
        self.side = Vertical(self.moments, self.plots, id="incident-side")
        self.body = Horizontal(Vertical(self.detail, self.lines), self.side, id="incident-body")

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield self.incidents
        yield self.head
        yield self.body
        yield self.alerts
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        """Put the cursor on the requested incident, else on the most important one."""
        leading = self.cockpit.view_state.snapshot.leading
        if ident := self._asked or (leading.id if leading else None):
            self.incidents.go_to(ident)
        self.arrange_parts()
        (self.head if self.head.display else self.incidents).focus()

    def show(self, ident: str) -> None:
        """Put the cursor on the incident with this id."""
        self.incidents.go_to(ident)
        self.pull()

    def arrange_parts(self) -> None:
        """Set each part's height: the shown incident gets most, the lists what they need of the rest."""
        room = self.size.height - FRAME_LINES
        reported = self.cockpit.view_state.snapshot
        some = bool(reported.incidents)
        self.incidents.prepare()
        self.incidents.display = len(reported.incidents) != 1
        listed = self.incidents.count() if not some else 1 + min(MAX_LISTED, len(reported.incidents))
        self.head.display = self.body.display = some
        beside = self.moments.display = self.size.width >= BESIDE_COLUMNS
        self.side.display = beside  # a query finds it only once the screen is composed
        self.detail.with_moments = not beside
        self._choose()
        self.head.prepare()
        self.alerts.prepare()
        set_height(self.incidents, listed)
        room -= listed if self.incidents.display else 0
        if some:
            head = max(1, min(self.head.count(), room // 2))
            set_height(self.head, head)
            alerts = max(3, min(self.alerts.count(), room - head - MIN_DETAIL_HEIGHT, room * 3 // 10))
            self._share_body(room - head - alerts)
        set_height(self.alerts, alerts if some else max(3, room))

    def _share_body(self, lines: int) -> None:
        """Show the plots and the log lines of the cause if there is room below the text."""
        self.plots.display = lines >= PLOTS_BODY and self.moments.display and self.plots.fits(lines)
        set_height(self.plots, int(lines * PLOTS_SHARE))
        self.lines.display = lines >= LINES_BODY and self.lines.location() is not None
        set_height(self.lines, int(lines * LINES_SHARE))

    def _choose(self) -> None:
        incident = self.incidents.incident()
        ident = incident.id if incident else None
        if ident != self.detail.ident:
            self.head.ident = self.detail.ident = self.moments.ident = ident
            self.plots.ident = self.lines.ident = ident
            self.detail.at = self.moments.at = 0
            self.detail.scroll_home(animate=False)
            self.moments.scroll_home(animate=False)

    # ---- what the cursor is on

    def incident(self) -> Incident | None:
        """Return the incident shown in full; None without incidents."""
        return self.detail.incident()

    def alert(self) -> Alert | None:
        """Return the alert under the cursor, else the cause of the shown incident, else None."""
        incident = self.incident()
        return self._listed_alert() or (incident.cause if incident else None)

    def _listed_alert(self) -> Alert | None:
        """Return the alert of the item under the cursor; None if it has none, such as the headline."""
        part = self.focused
        item = part.chosen() if isinstance(part, IncidentDetail | IncidentMoments | AlertList) else None
        return item.alert if item is not None else None

    def explained(self) -> str:
        item = self.alert() or self.incident()
        return item.code if item else ""

    def node_name(self) -> str | None:
        alert = self.alert()
        return alert.node if alert else None

    def action_target(self) -> ActionTarget | None:
        alert, incident = self.alert(), self.incident()
        if self.focused is self.alerts and alert is not None:
            return about_alert(self.cockpit.view_state.snapshot, alert)
        return None if incident is None else about_incident(incident)

    @on(SelectableLines.Moved, "#incidents")
    def _show(self) -> None:
        self.pull()

    @on(SelectableLines.Chosen, "#incidents")
    def _enter(self) -> None:
        if self.head.display:
            self.head.focus()

    @on(SelectableLines.Chosen, "#alerts")
    def _open_alert(self) -> None:
        if not self.alerts.toggle_fold():
            self._open()

    @on(SelectableLines.Chosen, "#incident-head, #incident, #moments")
    def _open(self) -> None:
        alert, incident = self._listed_alert(), self.incident()
        if incident is not None and (alert is None or (alert == incident.cause and not location_of(alert))):
            alert = alert_with_line(incident)
        if alert is not None:
            self.cockpit.show_alert(alert, incident)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now, such as acknowledging without an incident."""
        incident, on_list = self.incident(), self.focused is self.alerts
        reported = self.cockpit.view_state.snapshot
        idle = set() if on_list else {"silence"}
        if incident is None:
            idle |= {"next_mode", "next_rank"} if on_list else {"next_mode", "next_rank", "acknowledge"}
            idle |= set() if reported.alerts else {"choose", "waiting"}
        elif location_after(incident, None) is None:
            idle.add("next_rank")
        if not reported.alerts:
            idle |= {"unhealthy", "acknowledge"}
        return frozenset(idle)

    def step_back(self) -> bool:
        if not self.alerts.only_firing:
            return False
        self.action_unhealthy()
        return True

    # ---- gestures

    def action_acknowledge(self) -> None:
        """Acknowledge the incident, or the alerts under the cursor of the alert list.

        A second time undoes it.
        """
        session, incident = self.cockpit.view_state.session, self.incident()
        meant: tuple[Alert | Incident, ...] = (incident,) if incident else ()
        if self.focused is self.alerts:
            meant = self.alerts.chosen_alerts()
        for each in meant:
            (session.unacknowledge if each.acknowledged else session.acknowledge)(each.id)
        if not meant:
            self.notify("no incident or alert to acknowledge", timeout=3)
        else:
            what = (
                f"{len(meant)} alerts" if len(meant) > 1 else "alert" if meant[0] != incident else "incident"
            )
            done = "no longer acknowledged" if meant[0].acknowledged else "acknowledged"
            undo = self.cockpit.key_of("incident.acknowledge")
            self.notify(f"{what} {done}; {undo} undoes it", timeout=3)
        self.cockpit.pump()

    def action_silence(self) -> None:
        """Silence the alert's code at its place, or undo it; for a folded line at every place.

        Outside of the alert list, only show a notice about how to reach it.
        """
        session, undo = self.cockpit.view_state.session, self.cockpit.key_of("incident.silence")
        if self.focused is not self.alerts:
            pane = self.cockpit.key_of("pane.next")
            text = f"press {pane} to reach the alert list; {undo} silences the alert under the cursor"
            self.notify(text, timeout=4)
            return
        chosen = self.alerts.chosen_alerts()
        if not chosen:
            return
        first, one = chosen[0], len(chosen) == 1
        where = (first.node, first.gpu, first.rank) if one else (None, None, None)
        change, word = (session.unsilence, "unsilenced") if first.silenced else (session.silence, "silenced")
        trouble = change(first.code, node=where[0], gpu=where[1], rank=where[2])
        place = f"at {place_of(first)}" if one else "everywhere"
        text = f"{first.code} {place}: {word}; {undo} undoes it" + (f" ({trouble})" if trouble else "")
        self.notify(clean(text), timeout=4, markup=False)
        self.cockpit.pump()

    def action_unhealthy(self) -> None:
        """Switch between showing only alerts that fire and are not acknowledged, and all."""
        self.alerts.only_firing = not self.alerts.only_firing
        self.pull()

    def action_next_rank(self) -> None:
        """Open the log line of the next rank of the shown incident."""
        if incident := self.incident():
            self.cockpit.show_rank_of(incident)
        else:
            self.notify(f"no incident; {self.cockpit.key_of('app.logs')} shows the logs", timeout=3)

    def action_next_mode(self, step: int) -> None:  # noqa: ARG002 - there is one other way to show it
        """Open the logs of all ranks of the shown incident, at the time of the item under the cursor."""
        if (incident := self.incident()) is not None:
            self.cockpit.show_ranks_of(incident, self._listed_alert() or alert_with_line(incident))
        else:
            self.notify(f"no incident; {self.cockpit.key_of('app.logs')} shows the logs", timeout=3)
