"""The keys of a screen in its last line, as many as there is room for: help and quit are the last to go."""

from __future__ import annotations

from collections.abc import Iterator

from textual import events
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey  # textual names it nowhere else

from gpuwatch.tui.toolkit.live_screen import LiveScreen

FIRST_TO_GO = ("command_palette", "freeze", "sort", "unhealthy", "silence")
LAST_TO_GO = ("help", "back_or_quit", "choose", "incidents", "waiting", "filter")
ASKED_FROM = ("fleet", "incidents", "training")
"""Screens that can start a hang query."""


class KeysLine(Footer):
    """Textual's footer, which would cut the last key off."""

    def __init__(self, kind: str) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._kind = kind
        """Which screen it is."""
        self._width = 0

    def compose(self) -> ComposeResult:
        """The keys that fit."""
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        yield from self._fitting([key for key in keys if not self._is_idle(key)])

    def on_resize(self, event: events.Resize) -> None:
        """Another width has room for other keys."""
        if event.size.width != self._width:
            self.call_after_refresh(self.recompose)

    def _is_idle(self, key: FooterKey) -> bool:
        """Whether it leads nowhere from here."""
        name = key.action.partition("(")[0]
        if name == self._kind or (name == "waiting" and self._kind not in ASKED_FROM):
            return True
        return isinstance(self.screen, LiveScreen) and name in self.screen.idle()

    def _fitting(self, keys: list[FooterKey]) -> list[FooterKey]:
        self._width = self.app.size.width
        for key in _in_order_of_going(keys):
            if sum(map(_width_of, keys)) - 1 <= self._width:
                break
            keys = [each for each in keys if each is not key]
        return keys


def _in_order_of_going(keys: list[FooterKey]) -> Iterator[FooterKey]:
    yield from (key for action in FIRST_TO_GO for key in keys if key.action == action)
    yield from (key for key in reversed(keys) if key.action not in (*FIRST_TO_GO, *LAST_TO_GO))
    yield from (key for action in reversed(LAST_TO_GO) for key in keys if key.action == action)


def _width_of(key: FooterKey) -> int:
    """Key, a blank, what it does, a blank."""
    return len(key.key_display) + len(key.description) + 2
