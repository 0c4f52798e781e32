"""The keys that control a replay and a recording, and refusals of what a view cannot do."""

from __future__ import annotations

from gpuwatch.tui.model.log_folder import NOT_IN_LOGS
from gpuwatch.tui.model.replay import RecordingSwitch, Replaying
from gpuwatch.tui.model.session_protocol import SharedView
from gpuwatch.tui.navigation import Navigation

REPLAY_ACTIONS = frozenset(("step", "speed", "jump_to_incident", "go_to_time"))
AFTER_S = 0.5
"""Within this many seconds after an incident was first seen, "previous" means the one before it."""


class ReplayControl(Navigation):
    """An app whose session may be a recording, the logs of an ended job, or another process's session."""

    recording: RecordingSwitch | None = None
    """Starts and stops a recording of the session; None: it cannot be recorded."""
    shared_view: SharedView | None = None
    """The permissions in a view of another process's session; None: the session is this process's own."""

    def is_refused(self, action: str) -> bool:
        """Return True if a shared view refuses the action, and show why."""
        refusal = "" if self.shared_view is None else self.shared_view.refusal(action)
        if refusal:
            self.notify(refusal, severity="warning", timeout=5)
        return bool(refusal)

    @property
    def replay(self) -> Replaying | None:
        """The recording that is played; None for other sessions."""
        return self.view_state.replay

    def is_not_in_logs(self, what: str) -> bool:
        """Return True if only logs are shown, and show that `what` is therefore impossible."""
        if self.view_state.folder is None:
            return False
        self.notify(f"{NOT_IN_LOGS}: {what}", timeout=4)
        return True

    def action_waiting(self) -> None:
        if not self.is_not_in_logs("a hang analysis queries the ranks of a running job"):
            super().action_waiting()

    def action_links(self) -> None:
        if not self.is_not_in_logs("a probe measures the links of running nodes"):
            super().action_links()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for the replay keys if no recording is played, which hides them; else as Textual."""
        if action in REPLAY_ACTIONS and self.replay is None:
            return False
        return super().check_action(action, parameters)

    def action_freeze(self) -> None:
        """Freeze the view or return to the present; in a recording, pause or play."""
        if self.replay is None:
            self.view_state.toggle_freeze()
        elif self.replay.playing and not self.replay.at_end:
            self.replay.pause()
        else:
            self.replay.play()
        self.pump()

    def action_step(self, ticks: int) -> None:
        """Pause the recording, and move it by this many sampling intervals."""
        if self.replay is not None:
            self.replay.pause()
            self.replay.step(ticks * self.view_state.plan.interval_s)
            self.pump()

    def action_speed(self, steps: int) -> None:
        """Change the replay's speed by this many steps."""
        if self.replay is not None:
            self.notify(f"speed {self.replay.change_speed(steps):g}x", timeout=2)
            self.pump()

    def action_jump_to_incident(self, direction: int) -> None:
        """Go to the time when the next (1) or previous (-1) incident was first seen."""
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
        """Open the dialog that asks for a time in the recording."""
        from gpuwatch.tui.chrome.dialogs.time_screen import TimeScreen  # noqa: PLC0415 - rarely needed

        replay = self.replay
        if replay is None:
            return

        def take(at: float | None) -> None:
            if at is not None:
                replay.go_to(at)
                self.pump()

        self.push_screen(TimeScreen(replay.position, replay.extent), take)

    def action_record(self) -> None:
        """Start or stop a recording of the session."""
        if self.replay is not None:
            self.notify("this is a recording already", timeout=3)
        elif self.recording is None:
            self.notify("this session cannot be recorded", timeout=3)
        else:
            self.notify(self.recording.toggle(), timeout=6)
