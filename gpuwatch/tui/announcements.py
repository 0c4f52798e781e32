"""Announces new incidents outside of the screens, by escape codes.

Desktop notifications and the terminal title.
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
        """Return the incidents not passed before, without ended and acknowledged ones; all are remembered."""
        new = [incident for incident in incidents if incident.id not in self._announced]
        self._announced.update(incident.id for incident in new)
        return [incident for incident in new if not (incident.over or incident.acknowledged)]

    def codes(self, incidents: Sequence[Incident], preferences: Preferences) -> str:
        """Return the escape codes that announce these new incidents together, as the preferences allow.

        The text is the last incident's headline with the number of the others; "" if the user wants neither
        notification nor title. `incidents` must not be empty.
        """
        last = incidents[-1]
        others = f" (and {len(incidents) - 1} more)" if len(incidents) > 1 else ""
        text = f"gpuwatch incident {last.number}{others}: {last.headline}"
        codes = _notification(text) if preferences.notify else ""
        if preferences.title:
            codes += ("" if self._titled else _KEEP_TITLE) + _title(text)
            self._titled = True
        return codes

    def end(self) -> str:
        """Return the escape codes that restore the terminal's own title; "" if it was not changed."""
        return _RESTORE_TITLE if self._titled else ""


def _notification(text: str) -> str:
    """Return the escape codes of a desktop notification.

    OSC 9 (iTerm2, kitty, Windows) and OSC 777 (urxvt, foot, VTE).
    """
    shown = _sanitized(text)
    return f"{_ESC}]9;{shown}{_END}{_ESC}]777;notify;gpuwatch;{shown}{_END}"


def _title(text: str) -> str:
    """Return the escape code that sets the terminal title."""
    return f"{_ESC}]2;{_sanitized(text)}{_END}"


def _sanitized(text: str) -> str:
    """Return the text without control characters and field separators, cut to `MAX_CHARACTERS`.

    The text of an incident contains parts of log lines, which are untrusted.
    """
    return clean(text).replace(";", ",")[:MAX_CHARACTERS]
