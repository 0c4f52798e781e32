"""The command palette, made safe against timers, searches and keys that arrive after it was closed."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.command import CommandList, CommandPalette, Provider
from textual.css.query import NoMatches
from textual.message import Message
from textual.timer import Timer, TimerCallback
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary

CHOICES = (Input.Changed, Input.Submitted, OptionList.OptionSelected, Button.Pressed)
"""Messages that are dropped after the palette was closed: their handlers need its parts or close it."""


class Palette(ErrorBoundary, CommandPalette):
    """A palette that ignores messages after it was closed; Textual's own still uses its parts then."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions({"app.back": "escape"})]
    closed = False

    def compose(self) -> ComposeResult:
        """Compose Textual's parts, over a line with the keys of the palette instead of the screen's."""
        yield from super().compose()
        yield KeysLine(field=("Run", "Close"))

    @property
    def _provider_classes(self) -> set[type[Provider]]:
        """The classes of the providers, in the order of their entries before anything is typed.

        Textual has a set, which has no order.
        """
        order = sorted(super()._provider_classes, key=lambda each: getattr(each, "order", 0))
        return cast("set[type[Provider]]", order)  # it is only iterated

    def dismiss(self, result: Any = None) -> AwaitComplete:  # noqa: ANN401 - the type of Textual's own
        """Close the palette once, even if two quick key presses both close it."""
        if self.closed or not self.is_active:
            return AwaitComplete()
        self.closed = True
        return super().dismiss(result)

    async def _on_message(self, message: Message) -> None:
        """Handle a message; input from before the palette was closed that arrives afterwards is dropped."""
        if not (self.closed and isinstance(message, CHOICES)):
            await super()._on_message(message)

    def _action_command_list(self, action: str) -> None:
        """Move the cursor in the list if it exists: not before the first hit, nor after the palette closed.

        Textual's list raises KeyError for a page down before its lines are laid out; that is ignored.
        """
        if self.query(CommandList):
            with contextlib.suppress(KeyError):
                super()._action_command_list(action)

    def run_worker(self, work: Any, *arguments: Any, **options: Any) -> Worker[Any]:  # noqa: ANN401 - textual's signature
        """Start a search; it ends silently if the palette does not have its list yet, or no longer."""
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
        """Set a timer whose callback is skipped once the palette's parts are gone."""

        def while_open() -> object:
            return callback() if callback is not None and self.query(CommandList) else None

        return super().set_timer(delay, while_open, name=name, pause=pause)
