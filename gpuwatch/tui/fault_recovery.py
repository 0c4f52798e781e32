"""Handles errors in the app: counts and shows them, and leaves a broken screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual._context import active_message_pump
from textual.actions import ActionParseResult, parse
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.notifications import Notification, Notify
from textual.widget import AwaitMount, Widget

from gpuwatch.fleet.stepwise import Steps
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.operator_actions import OperatorActions
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.faults import FaultLog

CRASHED = 70
"""Exit status after an internal fault (EX_SOFTWARE of sysexits.h)."""


LEAST_LEFT_S = 0.05


class LastingNotification(Notification):
    """A notice whose time left is never negative, also after a step of the clock or a long pause.

    Textual makes a timer of the time left; one with a negative interval never ends and stops the app.
    """

    @property
    def time_left(self) -> float:
        """The seconds until the notice is removed, at least `LEAST_LEFT_S`."""
        return max(LEAST_LEFT_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        """True once the time of the notice is over."""
        return super().time_left <= 0.0


class FaultRecovery(ErrorBoundary, OperatorActions):
    """An app that continues after an error as long as it has a working screen."""

    faults: FaultLog
    crash: Exception | None = None
    started = False
    """True after the links were started, which is after the first paint."""

    def on_notify(self, event: Notify) -> None:
        """Replace the notice by one whose timer ends; Textual shows it after this."""
        event.notification = LastingNotification(**vars(event.notification))

    def attempt(self, part: str, step: Callable[[], object]) -> None:
        """Run one step of a frame; an exception in it is reported, and the other steps still run."""
        try:
            step()
        except Exception as error:
            self.report_fault(part, error)

    def attempting(self, part: str, steps: Callable[[], Steps[object]]) -> Steps[None]:
        """Run one part of a frame in steps; an exception in it is reported, and ends this part."""
        try:
            yield from steps()
        except Exception as error:
            self.report_fault(part, error)

    def report_fault(self, part: str, error: Exception) -> str:
        """Count and log an error that a part survived, show it if new; return the line that describes it."""
        known = self.faults.kinds
        line = self.faults.add(part, error)
        if self.faults.kinds > known:
            self.notify(line, severity="error", timeout=10)
        return line

    def _handle_exception(self, error: Exception) -> None:
        """Handle an exception from outside of an error boundary: in a timer, or in a part of Textual.

        Before the links are started, or if the fleet screen is broken, the app exits, and the caller prints
        the traceback without the values of variables. Otherwise a broken screen is replaced by the fleet
        screen.
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
        """Go to the fleet screen if `part` no longer handles messages or could not compose.

        Exits the app if the fleet screen is the broken one.
        """
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
        """Run the action of a key, and return True if it was handled, refused or failed.

        On a screen that is being created, it runs after the screen's parts exist.
        """
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
    """Return True if a widget or screen failed to compose its parts."""
    if not isinstance(part, Widget) or type(part).compose is Widget.compose:
        return False
    return all(child.has_class("-textual-system") for child in part.children)
