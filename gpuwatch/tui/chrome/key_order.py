"""Handles keys in order: each one after the one before it has taken effect."""

from __future__ import annotations

from collections import deque
from functools import cached_property, partial
from math import inf
from time import monotonic
from typing import TypeAlias

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget

MAX_HELD = 1_000
"""Keys beyond this number that wait are dropped, as a terminal drops what is typed into a full buffer."""
CHECK_S = 0.02
OVERDUE_S, OVERDUE_CHECKS = 2.0, 25
"""A key whose `KeyHandled` is lost is done after so many seconds and checks of the app.

A slow handler or a busy machine delays the message, but also the checks.
"""

Typed: TypeAlias = "Key | Paste"


class KeyHandled(Message):
    """Posted behind a key to the same widget; it bubbles behind the key and reaches the app after it.

    It is posted twice, so that it also comes behind what the widget itself posts, as a field with Enter.
    """

    def __init__(self, number: int, *, again: bool = False) -> None:
        super().__init__()
        self.number = number
        self.again = again


class KeyOrder(App[None]):
    """An app that holds back what is typed until the key before it has moved the focus or opened its screen.

    Textual moves the focus by messages of its own, which come after keys that were typed at once: all keys of
    `/rank=85` but the first would be keys of the screen, and acknowledge what is under the cursor.

    A held key is handled in the end even if no frame comes and the message of a widget is lost, as happens if
    the key before it closes the widget: a timer of the app is enough.
    """

    _number: int = 0
    """The number of the last key that was handled."""
    _is_busy: bool = False
    """True while the effect of that key is not known to be complete."""
    _handled_at: float = inf
    """When its handler returned (monotonic seconds)."""
    _checks: int = 0
    _typed_on: Screen[object] | None = None
    _key_target: Widget | None = None
    """The widget that got the key."""
    _posted_to: MessagePump | None = None
    """Where `KeyHandled` was posted: that widget, or the app for a key of its own."""

    @cached_property
    def _held(self) -> deque[Typed]:
        """The keys that wait, the first one first."""
        return deque()

    async def on_event(self, event: Event) -> None:
        """Handle an event; a key that was typed ahead waits."""
        if not isinstance(event, (Key, Paste)) or event.is_forwarded:
            await super().on_event(event)
        elif not self._is_busy:
            await self._handle(event)
        elif len(self._held) < MAX_HELD:
            self._held.append(event)

    async def _handle(self, event: Typed) -> None:
        self._number, self._is_busy = self._number + 1, True
        self._handled_at, self._checks = inf, 0
        self._typed_on, self._key_target = self.screen, self.focused or self.screen
        self._posted_to = self
        try:
            await super().on_event(event)
            if event.is_forwarded:
                self._posted_to = self._key_target
        finally:
            self._handled_at = monotonic()
            self._posted_to.post_message(KeyHandled(self._number))
            self._check_later()

    def _check_later(self) -> None:
        """Check in the app's own queue, behind what is in it by then."""
        self.set_timer(CHECK_S, partial(self.call_later, self._check, self._number))

    async def _check(self, number: int) -> None:
        """Handle the next key if the widget of key `number` has gone, or its effect is overdue."""
        if not self._is_current(number):
            return
        self._checks += 1
        self._check_later()
        if self._checks >= OVERDUE_CHECKS and monotonic() - self._handled_at > OVERDUE_S:
            await self._finish(number)
        elif self._is_target_gone():
            self._finish_when_shown(number)

    def _is_current(self, number: int) -> bool:
        """Return True if key `number` is the last one, and its effect is not known to be complete."""
        return self._is_busy and number == self._number

    def _is_target_gone(self) -> bool:
        target = self._key_target
        return target is None or not target.is_attached or target.screen not in self.screen_stack

    def on_key_handled(self, event: KeyHandled) -> None:
        """Wait for the changes of focus that the key has requested: they are in the app's queue already."""
        target = self._posted_to if self._is_current(event.number) and not event.again else None
        if target is None or not target.post_message(KeyHandled(event.number, again=True)):
            self.call_later(self._finish_when_shown, event.number)

    def _finish_when_shown(self, number: int) -> None:
        if not self._is_current(number):
            return
        if self.screen is self._typed_on:
            self.call_later(self._finish, number)
        else:
            self.screen.call_after_refresh(self.call_later, self._finish, number)

    async def _finish(self, number: int) -> None:
        """Note that key `number` is done, and handle the next one in its place; a second call is ignored."""
        if not self._is_current(number):
            return
        self._is_busy = False
        if self._held:
            await self._handle(self._held.popleft())
