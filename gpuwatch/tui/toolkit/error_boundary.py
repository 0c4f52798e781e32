"""A widget, screen or app that goes on after one of its handlers raised.

Textual ends the whole app when a message handler, action or timer raises. Within an `ErrorBoundary` the
exception costs that one message: it is counted in the app's `faults`, and the rest of the screen goes on.
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
"""Without its parts a widget is no widget: what raises here is the app's to handle."""


class ErrorBoundary(MessagePump):
    """Counts what its handlers raise instead of passing it on."""

    @property
    def part(self) -> str:
        """What the line of a fault calls it: "the log pane" for `LogPane`."""
        return f"the {re.sub(r'(?<!^)(?=[A-Z])', ' ', type(self).__name__).lower()}"

    async def _dispatch_message(self, message: Message) -> None:
        """Textual's call for each message."""
        try:
            await super()._dispatch_message(message)
        except Exception as error:
            if isinstance(message, STARTING):
                raise
            if not self.app.screen_stack:  # the app is ending, and what comes late finds no screen
                return
            cast("Cockpit", self.app).report_fault(self.part, error)
