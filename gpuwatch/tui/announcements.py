"""New incidents outside of the screens: desktop notifications and the terminal's title, by escape codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.toolkit.styles import clean

MAX_CHARACTERS = 200
_ESC, _END = "\x1b", "\x1b\\"
_KEEP_TITLE, _RESTORE_TITLE = f"{_ESC}[22;2t", f"{_ESC}[23;2t"
"""The terminal's own title, put on its stack and taken from there (xterm's window operations)."""


class Announcements:
    """Which incidents are announced, and whether the terminal's title is ours."""

    def __init__(self) -> None:
        self._announced: set[str] = set()
        self._titled = False

    def take_new(self, incidents: Iterable[Incident]) -> list[Incident]:
        """The active ones that were not announced before."""
        new = [incident for incident in incidents if incident.id not in self._announced]
        self._announced.update(incident.id for incident in new)
        return [incident for incident in new if not (incident.over or incident.acknowledged)]

    def codes(self, incidents: Sequence[Incident], preferences: Preferences) -> str:
        """What the terminal is sent of incidents that came together, as the user wants it."""
        last = incidents[-1]
        others = f" (and {len(incidents) - 1} more)" if len(incidents) > 1 else ""
        text = f"gpuwatch incident {last.number}{others}: {last.headline}"
        codes = _notification(text) if preferences.notify else ""
        if preferences.title:
            codes += ("" if self._titled else _KEEP_TITLE) + _title(text)
            self._titled = True
        return codes

    def end(self) -> str:
        """What gives the terminal its title back."""
        return _RESTORE_TITLE if self._titled else ""


def _notification(text: str) -> str:
    """The codes of a desktop notification: OSC 9 (iTerm2, kitty, Windows) and OSC 777 (urxvt, foot, VTE)."""
    shown = _harmless(text)
    return f"{_ESC}]9;{shown}{_END}{_ESC}]777;notify;gpuwatch;{shown}{_END}"


def _title(text: str) -> str:
    """The code of a terminal title."""
    return f"{_ESC}]2;{_harmless(text)}{_END}"


def _harmless(text: str) -> str:
    """Log lines reach an incident's sentence: no control character, no separator of fields, not too long."""
    return clean(text).replace(";", ",")[:MAX_CHARACTERS]
