"""The command palette, safe against timers that end after it was closed."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette
from textual.timer import Timer, TimerCallback


class Palette(CommandPalette):
    """Textual's own queries its list when a search found nothing, half a second later, closed or not."""

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
