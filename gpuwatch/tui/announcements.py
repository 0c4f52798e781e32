"""Announces new incidents outside of the screens.

Desktop notifications and the terminal title, by escape codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.toolkit.styles import clean

MAX_CHARACTERS = 200
_ESC, _END = "\x1b", "\x1b\\"
_KEEP_TITLE, _RESTORE_TITLE = f"{_ESC}[22;2t", f"{_ESC}[23;2t"
"""Save and restore the terminal's own title on its stack (xterm's window operations)."""


class Announcements:
    """Records which incidents are announced, and whether gpuwatch has set the terminal title."""

    def __init__(self) -> None:
        self._announced: set[str] = set()
        self._titled = False

    def take_new(self, incidents: Iterable[Incident]) -> list[Incident]:
        """Return the active incidents that were not announced before."""
        new = [incident for incident in incidents if incident.id not in self._announced]
        self._announced.update(incident.id for incident in new)
        return [incident for incident in new if not (incident.over or incident.acknowledged)]

    def codes(self, incidents: Sequence[Incident], preferences: Preferences) -> str:
        """The escape codes that announce incidents reported together, by the user's preferences."""
        last = incidents[-1]
        others = f" (and {len(incidents) - 1} more)" if len(incidents) > 1 else ""
        text = f"gpuwatch incident {last.number}{others}: {last.headline}"
        codes = _notification(text) if preferences.notify else ""
        if preferences.title:
            codes += ("" if self._titled else _KEEP_TITLE) + _title(text)
            self._titled = True
        return codes

    def end(self) -> str:
        """The escape codes that restore the terminal's own title."""
        return _RESTORE_TITLE if self._titled else ""


def _notification(text: str) -> str:
    """The escape codes of a desktop notification.

    OSC 9 (iTerm2, kitty, Windows) and OSC 777 (urxvt, foot, VTE).
    """
    shown = _sanitized(text)
    return f"{_ESC}]9;{shown}{_END}{_ESC}]777;notify;gpuwatch;{shown}{_END}"


def _title(text: str) -> str:
    """The escape code that sets the terminal title."""
    return f"{_ESC}]2;{_sanitized(text)}{_END}"


def _sanitized(text: str) -> str:
    """Remove control characters and field separators and limit the length.

    Log lines are part of an incident's sentence.
    """
    return clean(text).replace(";", ",")[:MAX_CHARACTERS]
