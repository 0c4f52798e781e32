"""The keys that act on what is under the cursor: confirmed actions, notes, reconnects, profiles."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.diagnose.actions.action import Action, ActionTarget
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank
from gpuwatch.number_text import plural
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.model.session_protocol import Acting
from gpuwatch.tui.replay_control import ReplayControl
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen

SETTINGS_NOTICE_S = 30.0


class OperatorActions(ReplayControl):
    """An app that runs commands, each confirmed by typing a name, profiles ranks and writes notes."""

    preferences: Preferences
    settings_problems: Sequence[str] = ()
    """The problems of the settings that are left out, with place and remedy."""

    def state_settings_problems(self) -> None:
        """Show a notice of the first setting that is left out, and the number of others, if there is any."""
        if self.settings_problems:
            others = len(self.settings_problems) - 1
            more = f" (and {plural(others, 'other problem')})" if others else ""
            place, _, why = self.settings_problems[0].partition(": ")
            text = f"{place.rpartition('/')[2]}: {why}; not used{more}"  # stderr has the whole path
            self.notify(text, severity="warning", timeout=SETTINGS_NOTICE_S)

    def why_no_actions(self) -> str:
        """Return why no action may run here; "" if they may."""
        if self.shared_view is not None and (why := self.shared_view.refusal("act")):
            return why
        if not self.view_state.plan.actions:
            return "actions are off: the hosts file has actions: off"
        if not self.preferences.actions and self.settings_problems:
            return "actions are off until the settings file has no problem: gpuwatch config show"
        if not self.preferences.actions:
            return "actions are off: the settings file has actions: off"
        return "" if self.replay is None else "a recording shows the past: no action is possible"

    def action_act(self) -> None:
        """Open the list of actions for the selected place; without any, show a notice that states why."""
        from gpuwatch.diagnose.actions.offers import possible_actions  # noqa: PLC0415 - rarely needed
        from gpuwatch.tui.actions.action_text import title_of  # noqa: PLC0415 - loaded when it is needed
        from gpuwatch.tui.actions.actions_screen import ActionsScreen  # noqa: PLC0415 - loaded when it is needed

        if self.is_not_in_logs("an action needs running nodes"):
            return
        if why := self.why_no_actions():
            self.notify(why, timeout=5)
            return
        target = self._target()
        if target is None:
            self.notify("no action is possible on the item under the cursor", timeout=3)
            return
        actions = possible_actions(target, self.view_state.session.fleet)
        title = title_of(target)
        if not actions:
            words = "no rank runs there, and neither Slurm nor Kubernetes manages it"
            self.notify(f"{title}: no action is possible from here ({words})", timeout=5)
            return

        def confirm(action: Action | None) -> None:
            if action is not None:
                self._confirm(action, target)

        self.push_screen(ActionsScreen(title, actions), confirm)

    def action_retry(self) -> None:
        """Reconnect the lost node under the cursor now, instead of at its next retry."""
        if self.is_not_in_logs("no node is connected"):
            return
        name = self.screen.node_name() if isinstance(self.screen, LiveScreen) else None
        node = self.view_state.fleet.nodes.get(name or "")
        if node is None:
            return
        if node.link.phase == "lost":
            self.view_state.session.retry(node.name)
            self.notify(f"reconnecting to {node.name}", timeout=2, markup=False)
        else:
            self.notify(f"{node.name} is {node.link.phase}: nothing to reconnect", timeout=2, markup=False)

    def write_note(self, ident: str) -> None:
        """Open the dialog for a note on the incident with the id `ident`.

        Does nothing if there is no such incident; a shared view that may not change anything refuses it.
        """
        from gpuwatch.tui.chrome.dialogs.note_screen import NoteScreen  # noqa: PLC0415 - rarely needed

        incident = self.view_state.snapshot.incident(ident)
        if incident is None or self.is_refused("write_note"):
            return

        def take(text: str) -> None:
            trouble = self.view_state.session.note(ident, text)
            words = f"noted on incident {incident.number}" + (f", here alone: {trouble}" if trouble else "")
            self.notify(words, severity="warning" if trouble else "information", timeout=5)

        self.push_screen(NoteScreen(f"Note on incident {incident.number}", take))

    def _target(self) -> ActionTarget | None:
        """Return the target under the cursor, else the screen's node; None: neither, or it is a dialog."""
        from gpuwatch.tui.actions.action_targets import about_place  # noqa: PLC0415 - rarely needed

        if not isinstance(self.screen, LiveScreen):
            return None
        name = self.screen.node_name()
        return self.screen.action_target() or (about_place(self.view_state, name) if name else None)

    def _confirm(self, action: Action, target: ActionTarget) -> None:
        from gpuwatch.diagnose.actions.offers import possible_actions  # noqa: PLC0415 - rarely needed
        from gpuwatch.tui.actions.confirm_screen import ConfirmScreen  # noqa: PLC0415 - loaded when it is needed

        incident = self.view_state.snapshot.incident(target.incident or "")
        noted = "not noted on any incident" if incident is None else f"noted on incident {incident.number}"

        def begin(confirmed: Action, about: ActionTarget) -> Acting | str:
            from gpuwatch.session.actions.running import RefusedActionError  # noqa: PLC0415 - likewise

            if why := self.why_no_actions():
                return why
            try:
                return self.view_state.session.act(confirmed, about)
            except RefusedActionError as error:
                return str(error)

        def renew(about: ActionTarget) -> Action:
            offers = possible_actions(about, self.view_state.session.fleet)
            return next((each for each in offers if each.kind == action.kind), action)

        self.push_screen(ConfirmScreen(action, target, begin, renew, noted))

    def action_profile(self) -> None:
        """Show the cost of profiling the rank under the cursor; on the profile screen, start it.

        On the screen of a finished profile, begin another. The median rank of the job is profiled for
        comparison, if there is one.
        """
        from gpuwatch.tui.profile.screen import ProfileScreen  # noqa: PLC0415 - loaded when it is first opened

        if self.is_not_in_logs("a profile samples a running rank"):
            return
        if isinstance(self.screen, ProfileScreen):
            if not self.screen.page.profiling.over:
                self.screen.action_start_profile()
                return
            self.pop_screen()
        if self.view_state.replay is not None:
            self.notify("a recording has no running rank to sample", timeout=3)
            return
        place = self.place_under_cursor()
        if place is None:
            fleet = self.key_of("app.training")
            self.notify(f"no rank under the cursor; screen {fleet} lists the ranks", timeout=3)
            return
        peer = self._median_peer(place)
        places = [place] if peer is None else [place, peer]
        self.push_screen(ProfileScreen(self.view_state.session.profile(places, self.view_state.placement)))

    def place_under_cursor(self) -> PlacedRank | None:
        """Return the rank under the cursor with its node and process; None without one or if it has ended."""
        place = self.screen.rank_place() if isinstance(self.screen, LiveScreen) else None
        return place if place is not None and place.alive and place.rank is not None else None

    def _median_peer(self, place: PlacedRank) -> PlacedRank | None:
        from gpuwatch.diagnose.profiles.rank_choice import median_rank  # noqa: PLC0415 - rarely needed

        view = self.view_state
        return median_rank(view.session.fleet, view.placement, place, view.now, view.wall())
