"""The keys that play a recording, the one that makes one, and those that logs alone cannot answer."""

from __future__ import annotations

from gpuwatch.tui.model.log_folder import NOT_IN_LOGS
from gpuwatch.tui.model.replay import RecordingSwitch, Replaying
from gpuwatch.tui.model.session_protocol import SharedView
from gpuwatch.tui.profile_key import ProfileKey

REPLAY_ACTIONS = frozenset(("step", "speed", "jump_to_incident", "go_to_time"))
AFTER_S = 0.5
"""So long after an incident was first seen the one before it is the previous one."""


class ReplayControl(ProfileKey):
    """An app whose session may be a recording, or the logs of an ended job."""

    recording: RecordingSwitch | None = None
    """Starts and ends a recording of the session; None: it cannot be recorded."""
    shared_view: SharedView | None = None
    """What may be done in a view of another process's session; None: the session is of this process."""

    def is_refused(self, action: str) -> bool:
        """Whether a shared view does not do this; then the person is told why."""
        refusal = "" if self.shared_view is None else self.shared_view.refusal(action)
        if refusal:
            self.notify(refusal, severity="warning", timeout=5)
        return bool(refusal)

    @property
    def replay(self) -> Replaying | None:
        """The recording that is played; None: the session is live."""
        return self.view_state.replay

    def is_not_in_logs(self, what: str) -> bool:
        """Whether logs are shown, of which this cannot be asked; then the person is told `what` it needs."""
        if self.view_state.folder is None:
            return False
        self.notify(f"{NOT_IN_LOGS}: {what}", timeout=4)
        return True

    def action_waiting(self) -> None:
        """Start a hang query."""
        if not self.is_not_in_logs("it asks the ranks of a running job where they wait"):
            super().action_waiting()

    def action_links(self) -> None:
        """The probes of the links."""
        if not self.is_not_in_logs("a probe measures the links of running nodes"):
            super().action_links()

    def action_profile(self) -> None:
        """Profile the rank under the cursor."""
        if not self.is_not_in_logs("it samples a running rank"):
            super().action_profile()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a recording its keys do nothing, and no line of hints shows them."""
        if action in REPLAY_ACTIONS and self.replay is None:
            return False
        return super().check_action(action, parameters)

    def action_freeze(self) -> None:
        """Hold what is painted still, or catch up; of a recording: pause, or play."""
        if self.replay is None:
            self.view_state.toggle_freeze()
        elif self.replay.playing and not self.replay.at_end:
            self.replay.pause()
        else:
            self.replay.play()
        self.pump()

    def action_step(self, ticks: int) -> None:
        """Stand still, so many ticks later or earlier."""
        if self.replay is not None:
            self.replay.pause()
            self.replay.step(ticks * self.view_state.plan.interval_s)
            self.pump()

    def action_speed(self, steps: int) -> None:
        """Play faster or slower."""
        if self.replay is not None:
            self.notify(f"speed {self.replay.change_speed(steps):g}x", timeout=2)
            self.pump()

    def action_jump_to_incident(self, direction: int) -> None:
        """Go to the moment at which the next or the previous incident was first seen."""
        replay = self.replay
        if replay is None:
            return
        moments = [at for at, _ in replay.incident_moments()]
        here = replay.position
        if direction > 0:
            found = next((at for at in moments if at > here), None)
        else:
            found = next((at for at in reversed(moments) if at < here - AFTER_S), None)
        if found is None:
            self.notify("no later incident" if direction > 0 else "no earlier incident", timeout=3)
            return
        replay.go_to(found)
        self.pump()

    def action_go_to_time(self) -> None:
        """Ask for a time, and show it."""
        from gpuwatch.tui.chrome.time_screen import TimeScreen  # noqa: PLC0415 - rarely needed

        replay = self.replay
        if replay is None:
            return

        def take(at: float | None) -> None:
            if at is not None:
                replay.go_to(at)
                self.pump()

        self.push_screen(TimeScreen(replay.position, replay.extent), take)

    def action_record(self) -> None:
        """Start or end a recording."""
        if self.replay is not None:
            self.notify("this is a recording already", timeout=3)
        elif self.recording is None:
            self.notify("this session cannot be recorded", timeout=3)
        else:
            self.notify(self.recording.toggle(), timeout=6)
