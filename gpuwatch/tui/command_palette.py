"""The command palette, safe against timers, searches and keys that come after it was closed."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.css.query import NoMatches
from textual.message import Message
from textual.timer import Timer, TimerCallback
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker

from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary

CHOICES = (Input.Changed, Input.Submitted, OptionList.OptionSelected, Button.Pressed)
"""Messages that Textual's palette answers by looking for its parts, or by closing itself."""


class Palette(ErrorBoundary, CommandPalette):
    """Textual's own queries its parts and closes itself once more, whether it is closed or not."""

    closed = False

    def dismiss(self, result: Any = None) -> AwaitComplete:  # noqa: ANN401 - the type of Textual's own
        """Close it, once; two keys pressed fast both ask for it."""
        if self.closed or not self.is_current:
            return AwaitComplete()
        self.closed = True
        return super().dismiss(result)

    async def _on_message(self, message: Message) -> None:
        """Drop what was typed or chosen before it closed and arrives afterwards."""
        if not (self.closed and isinstance(message, CHOICES)):
            await super()._on_message(message)

    def _action_command_list(self, action: str) -> None:
        """Move in the list, where there is one: not before the first hit, nor after the palette closed.

        Textual's list raises KeyError for a page down before its lines are laid out.
        """
        if self.query(CommandList):
            with contextlib.suppress(KeyError):
                super()._action_command_list(action)

    def run_worker(self, work: Any, *arguments: Any, **options: Any) -> Worker[Any]:  # noqa: ANN401 - textual's signature
        """Start a search, which ends quietly where the palette has no list: not yet, or no more."""
        return super().run_worker(self._with_list(work), *arguments, **options)

    def _with_list(self, work: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        async def search() -> object:
            try:
                return await work()
            except NoMatches:
                if self.query(CommandList):
                    raise
                return None

        return search

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """A timer that does nothing once the palette's parts are gone."""

        def while_open() -> object:
            return callback() if callback is not None and self.query(CommandList) else None

        return super().set_timer(delay, while_open, name=name, pause=pause)
