"""Handles keys in order: each one after the one before it has taken effect."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from time import monotonic
from typing import TypeAlias

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

MAX_HELD = 1_000
"""Keys beyond this number that wait are dropped, as a terminal drops what is typed into a full buffer."""
RECHECK_S = 0.02
OVERDUE_S, OVERDUE_FRAMES = 2.0, 4
"""A key without `KeyHandled` is done after so many seconds and frames, as the message is lost.

A slow handler or a busy machine delays the message, but also the frames.
"""

Typed: TypeAlias = "Key | Paste"


class KeyHandled(Message):
    """Posted behind a key to the same widget; it bubbles behind the key and reaches the app after it."""


class KeyOrder(App[None]):
    """An app that holds back what is typed until the key before it has moved the focus or opened its screen.

    Textual moves the focus by messages of its own, which come after keys that were typed at once: all keys of
    `/rank=85` but the first would be keys of the screen, and acknowledge what is under the cursor.
    """

    _passing: Typed | None = None
    """The key that was held and is in the app's queue again."""
    _busy_since: float | None = None
    """When the last key was handled whose effect is not known to be complete (monotonic seconds)."""
    _frames: int = 0
    """Number of frames since then."""
    _typed_on: Screen[object] | None = None
    _key_target: Widget | None = None
    """The widget that got the key; a message behind it is lost if the key closes it."""

    @cached_property
    def _held(self) -> deque[Typed]:
        """The keys that wait, the first one first."""
        return deque()

    async def on_event(self, event: Event) -> None:
        """Handle an event; a key that was typed ahead waits."""
        if not isinstance(event, (Key, Paste)) or event.is_forwarded:
            await super().on_event(event)
            return
        if event is self._passing:
            self._passing = None
        elif self._held or self._passing is not None or self._is_busy():
            if len(self._held) < MAX_HELD:
                self._held.append(event)
                self.set_timer(RECHECK_S, self._recheck)
            return
        self._busy_since, self._typed_on = monotonic(), self.screen
        self._key_target, self._frames = self.focused or self.screen, 0
        await super().on_event(event)
        self._busy_since, self._frames = monotonic(), 0
        (self._key_target if event.is_forwarded else self).post_message(KeyHandled())

    def _is_busy(self) -> bool:
        """Return True if the last key may still move the focus."""
        if self._busy_since is None or self._key_target is None:
            return False
        if self._frames >= OVERDUE_FRAMES and monotonic() - self._busy_since > OVERDUE_S:
            return False
        return self._key_target.is_attached and self._key_target.screen in self.screen_stack

    def _recheck(self) -> None:
        """Handle the next key if the widget of the last one has gone, or its effect is overdue."""
        if self._held and not self._is_busy():
            self._pass_next_when_shown()

    def on_key_handled(self) -> None:
        """Wait for the changes of focus that the key has requested: they are in the app's queue already."""
        self.call_later(self._pass_next_when_shown)

    def _pass_next_when_shown(self) -> None:
        if self.screen is self._typed_on:
            self._pass_next()
        else:
            self.screen.call_after_refresh(self._pass_next)

    def _pass_next(self) -> None:
        self._busy_since = None
        if self._held and self._passing is None:
            self._passing = self._held.popleft()
            self.post_message(self._passing)

    def pass_overdue(self) -> None:
        """Handle the next key if the last one is done without a message; called in every frame."""
        self._frames += 1
        self._recheck()
