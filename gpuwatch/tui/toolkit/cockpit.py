"""The app's interface for its screens and widgets, so that none of them imports the app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.model.node_summary import Overview, Totals
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.model.replay import RecordingSwitch
from gpuwatch.tui.model.session_protocol import SharedView
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.faults import FaultLog
from gpuwatch.tui.toolkit.refresh_rate import RefreshRate
from gpuwatch.tui.toolkit.styles import StyleSet


class Delivering(Protocol):
    """Delivers incidents to external receivers."""

    @property
    def trouble(self) -> str:
        """One line about what is not delivered; "" if everything is."""
        ...

    def update(self, incidents: Sequence[Incident], /) -> None:
        """Take the current state of all incidents, to deliver changes; returns at once."""
        ...


class OpenRequest(Struct, frozen=True):
    """A request of a screen to the logs screen to open logs."""

    node: str | None = None
    file: str | None = None
    offset: int | None = None
    at: float | None = None
    """Unix seconds on our clock."""
    ranks: tuple[int, ...] = ()
    merged: bool = False
    incident: str | None = None
    """The id of the incident that led here: its logs are shown, too."""


class Cockpit(Protocol):
    """The interface of the app for widgets: what they show, and methods that open other screens."""

    view_state: ViewState
    look: StyleSet
    overview: Overview
    totals: Totals
    pace: RefreshRate
    asked_hz: float
    faults: FaultLog
    preferences: Preferences
    delivery: Delivering | None
    recording: RecordingSwitch | None
    shared_view: SharedView | None

    def prefer(self, name: str, value: object) -> None:
        """Apply and save a setting that was changed on the screen."""
        ...

    def prefer_of(self, name: str, table: str, value: object) -> None:
        """Apply and save a table's entry of a setting such as `sort`; an empty value restores the default."""
        ...

    def key_of(self, name: str) -> str:
        """Return the current key of a binding, by the binding's id."""
        ...

    @property
    def where(self) -> str:
        """The kind of the shown screen; "" for a dialog."""
        ...

    def report_fault(self, part: str, error: Exception) -> str:
        """Count an error that a part survived; return the line that describes it."""
        ...

    def pump(self) -> None:
        """Poll the session and repaint what has changed."""
        ...

    def show_node(self, name: str, uuid: str | None = None) -> None:
        """Open the screen of a node over the fleet screen, the cursor on this GPU (UUID) or the first."""
        ...

    def show_gpu(self, name: str, uuid: str) -> None:
        """Open the screen of a GPU, over its node's."""
        ...

    def show_job(self, job: str | None) -> None:
        """Show one job alone on every screen; "": all jobs; None: no change."""
        ...

    def show_metric(self, name: str) -> None:
        """Go to the fleet screen, and show this metric on the heat map."""
        ...

    def show_place(self, node: str, uuid: str | None) -> None:
        """Open a GPU, or without UUID a node, over the current screen."""
        ...

    def show_incidents(self, ident: str | None = None) -> None:
        """Open the incidents, with the cursor on `ident`; None: on the most important one."""
        ...

    def write_note(self, ident: str) -> None:
        """Open the dialog for a note on the incident with this id."""
        ...

    def show_alert(self, alert: Alert, incident: Incident | None = None) -> None:
        """Open the log line of an alert; without one, of an exit its rank's log, else its GPU or node."""
        ...

    def show_rank_of(self, incident: Incident) -> None:
        """Open the log line of the next rank of an incident."""
        ...

    def show_next_rank(self) -> None:
        """Open the next rank of the incident whose line was opened last, else of the leading incident."""
        ...

    def show_ranks_of(self, incident: Incident, alert: Alert | None) -> None:
        """Open the merged logs of all ranks of an incident, at the time of an alert, else of the incident."""
        ...

    def show_logs(self, request: OpenRequest) -> None:
        """Open the logs over the current screen."""
        ...
