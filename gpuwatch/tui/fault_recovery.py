"""What the app does about faults: it counts and shows them, and leaves a screen that is dead."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual._context import active_message_pump
from textual.actions import ActionParseResult, parse
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.widget import AwaitMount, Widget

from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.operator_actions import OperatorActions
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.faults import FaultLog

CRASHED = 70
"""Exit status after a fault of our own (EX_SOFTWARE of sysexits.h)."""


class FaultRecovery(ErrorBoundary, OperatorActions):
    """An app that goes on after a fault wherever a screen is left that works."""

    faults: FaultLog
    crash: Exception | None = None
    started = False
    """Whether the links were started, which is after the first paint."""

    def attempt(self, part: str, step: Callable[[], object]) -> None:
        """Take a step of a frame; a fault in it costs this step alone."""
        try:
            step()
        except Exception as error:
            self.report_fault(part, error)

    def report_fault(self, part: str, error: Exception) -> str:
        """Count a fault that a part survived, and show a new one; returns the line that states it."""
        known = self.faults.kinds
        line = self.faults.add(part, error)
        if self.faults.kinds > known:
            self.notify(line, severity="error", timeout=10)
        return line

    def _handle_exception(self, error: Exception) -> None:
        """Survive what was raised outside of an error boundary: in a timer, or in a part of Textual's.

        Before the links are started, and where the fleet's screen cannot be made, the app ends in order: the
        caller prints the traceback, without the values of variables.
        """
        part = active_message_pump.get(self)
        if not self.started:
            self._crash(error)
            return
        self.report_fault(f"the {type(part).__name__}", error)
        self.call_later(self._replace_dead, part, error)

    def _crash(self, error: Exception) -> None:
        self.crash = self.crash or error
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self.exit(return_code=CRASHED)

    def _replace_dead(self, part: MessagePump, error: Exception) -> None:
        """Leave the screen of a part that handles no more messages, or has no parts, for the fleet's."""
        try:
            ended = part.task.done()
        except AssertionError:  # Textual's, of a part without a task: it was removed, and shows nothing
            return
        if part is self or not (ended or _lacks_parts(part)):
            return
        if isinstance(self.screen, FleetScreen):
            self._crash(error)
        else:
            self.action_fleet()

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key is bound to; on a screen that is being made, once its parts are there."""
        if not self.screen.is_mounted:
            await AwaitMount(self.screen, [self.screen])
        if self.is_refused((parse(action) if isinstance(action, str) else action)[1]):
            return True
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            self.report_fault(f"the action {action if isinstance(action, str) else action[1]}", error)
            return True


def _lacks_parts(part: MessagePump) -> bool:
    """Whether a widget or screen could not compose; a screen has parts of Textual's own all the same."""
    if not isinstance(part, Widget) or type(part).compose is Widget.compose:
        return False
    return all(child.has_class("-textual-system") for child in part.children)
