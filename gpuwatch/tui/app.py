"""The app: themes, screens, keys, and the timer that updates the visible screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.events import Event, InputEvent
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.theme import ThemeProvider
from textual.timer import Timer
from textual.widget import Widget

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.fleet.stepwise import Steps, complete
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.tui.announcements import Announcements
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.key_order import KeyOrder
from gpuwatch.tui.command_palette import Palette
from gpuwatch.tui.command_provider import NodesAtFirst, PlaceProvider, action_commands
from gpuwatch.tui.evidence_bundle import EvidenceBundle
from gpuwatch.tui.fault_recovery import FaultRecovery
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.model.node_summary import Overview, Totals
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.model.session_protocol import SessionProtocol
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.navigation import Navigation
from gpuwatch.tui.terminal_driver import TerminalDriver
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import Delivering
from gpuwatch.tui.toolkit.faults import FaultLog, fault_file
from gpuwatch.tui.toolkit.frame_slices import FrameSlices
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen, leave_hidden_part
from gpuwatch.tui.toolkit.refresh_rate import RefreshRate
from gpuwatch.tui.toolkit.styles import Colours, StyleSet, build_styles, clean, wants_ascii
from gpuwatch.tui.toolkit.themes import THEMES, line_filters


class GpuwatchApp(KeyOrder, FaultRecovery):
    """The terminal app over a session. Session and clocks are arguments, so that tests can control them."""

    TITLE = "gpuwatch"
    CSS_PATH = "gpuwatch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.EVERYWHERE, *keys.REPLAY]
    COMMANDS: ClassVar = Navigation.COMMANDS | {PlaceProvider, NodesAtFirst}

    def __init__(
        self,
        session: SessionProtocol,
        *,
        clock: SessionClock = SYSTEM,
        hz: float | None = None,
        ascii_only: bool | None = None,
        no_color: bool = False,
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.view_state = ViewState(session, clock.monotonic, clock.wall, clock.behind_s)
        self.state_folder: Path | None = None
        self.delivery: Delivering | None = None
        self.overview = Overview()
        self.slices = FrameSlices(self._read)
        self.preferences = preferences or Preferences()
        self.pace = RefreshRate(hz or self.preferences.refresh)
        self.asked_hz = self.pace.hz
        self.faults = FaultLog(fault_file(), clock.wall)
        self.no_color = self.no_color or no_color
        self._ascii = wants_ascii() if ascii_only is None else ascii_only
        self._timer: Timer | None = None
        self.keep: Callable[[str, object], None] | None = None
        """Writes a setting to the user's settings file; None: changes hold for this session only."""
        self._announcements = Announcements()
        self.evidence = EvidenceBundle(self._report_evidence)
        for own in THEMES:
            self.register_theme(own)
        self.theme = self.preferences.theme
        self.look: StyleSet = self._make_look()
        self.totals: Totals = self.overview.totals()

    # ---- look

    def colours(self) -> Colours:
        """Return "none" for NO_COLOR, "few" for a terminal of 16 colours, else "many"."""
        if self.no_color:
            return "none"
        return "few" if self.console.color_system in ("standard", "windows") else "many"

    def _make_look(self) -> StyleSet:
        colours = self.colours()
        self.set_class(colours != "many", "-plain")  # Textual's own lists mark their cursor by colours alone
        return build_styles(dark=self.current_theme.dark, colours=colours, ascii_only=self._ascii)

    def _restyle(self) -> None:
        self.look = self._make_look()
        self.prefer("theme", self.theme)
        self.pump()

    def prefer(self, name: str, value: object) -> None:
        """Apply a changed setting, and save it if `keep` is set; an error while saving is shown."""
        if getattr(self.preferences, name) == value:
            return
        changed: dict[str, Any] = {name: value}
        self.preferences = replace(self.preferences, **changed)
        if self.keep is None:
            return
        try:
            self.keep(name, value)
        except (HostsError, OSError) as error:
            reason = error.problems[0] if isinstance(error, HostsError) else str(error)
            self.notify(f"{name} is not saved: {reason}", severity="warning", timeout=8)

    def get_line_filters(self) -> list[LineFilter]:
        """Return the filters for painted lines: without colours (bold and reverse stay), or ASCII alone.

        Textual's own filter, which replaces the 16 colours with its own shades, is left out: it is slow, and
        the user's own 16 colours are meant.
        """
        return line_filters(no_color=self.no_color, ascii_only=self._ascii)

    # ---- life

    def get_default_screen(self) -> Screen[None]:
        return FleetScreen(self.view_state)

    def on_mount(self) -> None:
        """Paint the initial state, in which no node is connected, then start the links."""
        self.look = self._make_look()  # a theme may have been chosen since
        self.set_keymap(dict(self.preferences.keys))
        self.theme_changed_signal.subscribe(self, lambda _theme: self._restyle())
        self.app_resume_signal.subscribe(self, lambda _app: self._repaint_all())
        complete(self._look_at_fleet())
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.view_state.session.start()
        self.started = True
        self._timer = self.set_interval(1 / self.pace.hz, self._pump_in_slices)
        self.pump()
        self.state_settings_problems()

    def _repaint_all(self) -> None:
        """Repaint everything: after a suspend (Ctrl-Z) the terminal is blank."""
        for part in self.screen.query(Widget):
            part.refresh()
        self.screen.refresh(layout=True)

    def pump(self) -> None:
        """Run one frame: poll the session, deliver and announce incidents, repaint what has changed."""
        if self.screen_stack:  # else it is closing
            self.slices.run()
            self._show()

    async def _pump_in_slices(self) -> None:
        """Run one frame; keys are handled between its slices."""
        if self.screen_stack:
            await self.slices.run_between_keys()
        if self.screen_stack:
            self._show()

    def _read(self) -> Steps[None]:
        yield from self.attempting("reading the nodes", self.view_state.session.polling)
        self.attempt("delivering incidents", self._deliver)
        yield from self.attempting("summing up the fleet", self._look_at_fleet)

    def _show(self) -> None:
        self.attempt("announcing incidents", self._announce)
        self.attempt("writing evidence", lambda: self.evidence.update(time.monotonic()))
        leave_hidden_part(self.screen)
        for screen in [each for each in self.screen_stack if isinstance(each, LiveScreen)][-1:]:
            screen.pull()  # also under a dialog
        for line in self.screen.query(KeysLine):
            line.make_room()
        if self.pace.frame(time.monotonic(), time.thread_time() - self.slices.cpu_s):
            self._retime()

    async def on_event(self, event: Event) -> None:
        """Note when a key or the mouse was used, which precedes the work of the frames."""
        if isinstance(event, InputEvent):
            self.slices.note_input()
        await super().on_event(event)

    def _deliver(self) -> None:
        if self.delivery is not None:
            self.delivery.update(self.view_state.session.book.incidents)

    def _look_at_fleet(self) -> Steps[None]:
        self.view_state.tick()
        moved = yield from self.overview.refreshing(self.view_state.fleet, self.view_state.now)
        if moved:
            self.totals = self.overview.totals()
        self.view_state.take_conditions(self.totals.worst)

    def _announce(self) -> None:
        """Show the session's trouble, if any, and announce the new incidents of this frame together."""
        if trouble := self.view_state.session.take_trouble():
            self.notify(trouble, severity="warning", timeout=10)
        new = self._announcements.take_new(self.view_state.snapshot.incidents)
        if not new:
            return
        if self.preferences.bell:
            self.bell()
        self._write(self._announcements.codes(new, self.preferences))
        if self.where != "incidents":  # the banner has the sentence
            key = self.key_of("app.incidents")
            one = f"{key} opens new incident {new[0].number}"
            self.notify(
                one if len(new) == 1 else f"{key} lists {len(new)} new incidents",
                severity="error",
                timeout=10,
            )

    def _write(self, codes: str) -> None:
        if codes and self._driver is not None:
            self._driver.write(codes)

    def on_unmount(self) -> None:
        """Restore the terminal title, and delete an unfinished evidence bundle."""
        self.evidence.close()
        self._write(self._announcements.end())

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a notice in one line above the key hints; it replaces older ones."""
        self.clear_notifications()
        text = clean(f"{title}: {message}" if title else message)
        super().notify(text, severity=severity, timeout=timeout, markup=markup)

    def _retime(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = self.set_interval(1 / self.pace.hz, self._pump_in_slices)

    def action_command_palette(self) -> None:
        """Open the command palette."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(placeholder="action, place or metric"))

    def search_themes(self) -> None:
        """Open the palette with the themes."""
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    # ---- the view itself

    def action_faster(self) -> None:
        """Double the repaint rate, to at most `MAX_HZ`, and save it."""
        self.pace.faster()
        self.prefer("refresh", self.pace.hz)
        self._retime()
        self.pump()

    def action_slower(self) -> None:
        """Halve the repaint rate, to at least `MIN_HZ`, and save it."""
        self.pace.slower()
        self.prefer("refresh", self.pace.hz)
        self._retime()
        self.pump()

    def action_copy(self) -> None:
        """Copy the text under the cursor without a newline, so that a shell does not run it when pasted."""
        text = clean(self.screen.copy_text()) if isinstance(self.screen, LiveScreen) else ""
        if text:
            self.copy_to_clipboard(text)
            self.notify("line copied", timeout=2)

    def action_copy_incident(self) -> None:
        """Copy the shown incident, else the leading one, to the clipboard as Markdown."""
        from gpuwatch.diagnose.incidents.markdown import as_markdown  # noqa: PLC0415 - rarely needed

        incident = self.shown_incident()
        if incident is None:
            self.notify("no active incident to copy", timeout=3)
            return
        self.copy_to_clipboard(as_markdown(incident, recorded=self.view_state.replay is not None))
        self.notify(f"incident {incident.number} copied as Markdown", timeout=3)

    def action_explain(self) -> None:
        """Explain what is under the cursor, else list the playbook's topics."""
        from gpuwatch.diagnose.explanations.explanation import all_explanations  # noqa: PLC0415 - rarely needed
        from gpuwatch.tui.chrome.dialogs.explain_screen import ExplainScreen  # noqa: PLC0415 - loaded when it is needed

        about = self.screen.explained() if isinstance(self.screen, LiveScreen) else ""
        known = all_explanations(self.view_state.session.packs.by_id)
        self.push_screen(ExplainScreen(known, about))

    def action_evidence(self) -> None:
        """Write the evidence bundle of the shown incident, of the leading one, or of the job shown alone.

        Over a folder of logs, copy the command that writes the bundle instead.
        """
        if (folder := self.view_state.folder) is not None:
            command = folder.evidence_command
            if command:
                self.copy_to_clipboard(command)
            words = (
                f"command copied: {command}"
                if command
                else "no command copied: gpuwatch evidence takes only one folder"
            )
            self._report_evidence(words, not command)
            return
        incident, job = self.shown_incident(), self.view_state.scope.job
        question = None if incident is None else self.view_state.questions.get(incident.id)
        self.evidence.start(incident, job, None if question is None else question.hang_report)

    def _report_evidence(self, words: str, is_warning: bool) -> None:
        self.notify(words, severity="warning" if is_warning else "information", timeout=8)

    def action_save_screen(self) -> None:
        """Save the screen as SVG and as text, and show the path."""
        from gpuwatch.tui.chrome.saved_screen import save_screen  # noqa: PLC0415 - rarely needed

        strips = self.screen._compositor.render_strips()  # noqa: SLF001 - as Textual's own screenshot does
        text = "".join(f"{strip.text.rstrip()}\n" for strip in strips)
        try:
            paths = save_screen(self.export_screenshot(), text, self.view_state.wall())
        except OSError as error:
            self.notify(f"screen not saved: {error.strerror}", severity="warning", timeout=5, markup=False)
        else:
            self.notify(clean(f"saved {paths[0]} and .txt"), timeout=5, markup=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the palette's commands: themes, and every action of `screen` except cursor moves."""
        yield from (each for each in super().get_system_commands(screen) if each.title == "Theme")
        yield from action_commands(self, screen)
