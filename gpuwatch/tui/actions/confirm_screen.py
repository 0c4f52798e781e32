"""The last dialog before an action runs: the command, its effect, and a name to type; then the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Label

from gpuwatch.diagnose.actions.action import MAX_REASON_CHARS, Action, ActionOutcome, ActionTarget
from gpuwatch.tui.actions.action_text import described
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.model.session_protocol import Acting
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog
from gpuwatch.tui.toolkit.styles import clean

POLL_EVERY_S = 0.1
WHAT = {
    "node": "the node's name",
    "job": "the job's id",
    "rank": "the rank's number",
    "pod": "the pod's name",
}


class ConfirmScreen(Dialog[None]):
    """A dialog that runs an action once, after the user has typed exactly its name, and shows the result."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions({"app.back": "close"}, {"app.back": "Close"})]

    def __init__(
        self,
        action: Action,
        target: ActionTarget,
        begin: Callable[[Action, ActionTarget], Acting | str],
        renew: Callable[[ActionTarget], Action],
        noted: str,
    ) -> None:
        """Create the dialog for an action.

        Args:
            action: The action to run.
            target: Its target.
            begin: Runs it and returns the running action; returns a sentence if it must not run.
            renew: Builds the same action for a target with the user's own reason.
            noted: Where the result is recorded, as text for the user.
        """
        super().__init__()
        self._action, self._begin, self._noted = action, begin, noted
        self._first = self._target = target
        self._renew = renew
        self._run: Acting | None = None
        self.line = Input(max_length=300)
        self.reason = Input(placeholder="another reason", max_length=MAX_REASON_CHARS)
        self.question = Label("", markup=False)
        self.about = Label("", markup=False)
        self.state = Label("", classes="box-note", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm-box"):
            yield Label(clean(self._action.title), markup=False)
            with VerticalScroll(id="action-about", can_focus=False):
                yield self.about
            if self._action.kind == "drain":
                yield self.reason
            yield self.question
            yield self.line
            yield self.state
        yield KeysLine(field=("Run", "Do nothing"))

    def on_mount(self) -> None:
        self.about.update(Content(described(self._action)))
        what = WHAT[self._action.confirm_what]
        self.question.update(Content(f"Type {what}, {clean(self._action.confirm)}, to run it:"))
        self.line.focus()
        self.set_interval(POLL_EVERY_S, self._poll)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        """Put the typed reason into the action and show the new command; an empty one restores the first."""
        if event.input is self.reason and self._run is None:
            self._target = replace(self._first, about=event.value.strip() or self._first.about)
            self._action = self._renew(self._target)
            self.about.update(Content(described(self._action)))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if event.input is self.reason:
            self.line.focus()
            return
        if self._run is not None or not self.is_active:
            return  # it runs, or the box was left by a key before this one
        if self.line.value.strip() != self._action.confirm:
            self._say(f"that is not {self._action.confirm}: nothing was run")
            return
        begun = self._begin(self._action, self._target)
        if isinstance(begun, str):
            self._say(f"nothing was run: {begun}")
            return
        self._run = begun
        self.line.display = self.question.display = self.reason.display = False
        self._say("it runs ...")
        self.set_focus(None)

    def _poll(self) -> None:
        run = self._run
        if run is not None and run.outcome is not None and not self.has_class("-ended"):
            self.add_class("-ended")
            self.about.update(Content(_result_text(self._action, run.outcome)))
            self._say(self._noted)

    def _say(self, words: str) -> None:
        self.state.update(Content(clean(words)))

    def action_close(self) -> None:
        """Close the dialog; a running action continues."""
        self.dismiss()


def _result_text(action: Action, outcome: ActionOutcome) -> str:
    lines = [action.command, f"ran {action.where}: {outcome.sentence}", ""]
    lines += outcome.output.splitlines() or ["it printed nothing"]
    return "\n".join(map(clean, lines))
