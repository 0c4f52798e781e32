"""The base of widgets, screens and the app, which survives an exception in one of their handlers.

Textual ends the whole app when a message handler, action or timer raises. Within an `ErrorBoundary` only that
one message is lost: the exception is counted in the app's `faults`, and the rest of the screen continues.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from textual import events
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.message import Message

    from gpuwatch.tui.toolkit.cockpit import Cockpit

STARTING = (events.Compose, events.Mount)
"""Events whose failure the app must handle: a widget without its parts is unusable."""


class ErrorBoundary(MessagePump):
    """A base class that catches and counts the exceptions of its message handlers."""

    @property
    def part(self) -> str:
        """The part's name for messages about errors: "the log pane" for `LogPane`."""
        return f"the {re.sub(r'(?<!^)(?=[A-Z])', ' ', type(self).__name__).lower()}"

    async def _dispatch_message(self, message: Message) -> None:
        """Handle a message; an exception is reported as a fault, except while the part is being created."""
        try:
            await super()._dispatch_message(message)
        except Exception as error:
            if isinstance(message, STARTING):
                raise
            if not self.app.screen_stack:  # the app is ending, and what comes late finds no screen
                return
            cast("Cockpit", self.app).report_fault(self.part, error)
