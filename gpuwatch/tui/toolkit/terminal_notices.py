"""Escape codes that take an incident out of the screen: a desktop notification, the terminal's title."""

from __future__ import annotations

from gpuwatch.tui.toolkit.styles import clean

MOST_CHARACTERS = 200
_ESC, _END = "\x1b", "\x1b\\"
KEEP_TITLE, RESTORE_TITLE = f"{_ESC}[22;2t", f"{_ESC}[23;2t"
"""The terminal's own title, put on its stack and taken from there (xterm's window operations)."""


def notification(text: str) -> str:
    """The codes of a desktop notification: OSC 9 (iTerm2, kitty, Windows) and OSC 777 (urxvt, foot, VTE)."""
    shown = _harmless(text)
    return f"{_ESC}]9;{shown}{_END}{_ESC}]777;notify;gpuwatch;{shown}{_END}"


def title(text: str) -> str:
    """The code of a terminal title."""
    return f"{_ESC}]2;{_harmless(text)}{_END}"


def _harmless(text: str) -> str:
    """Log lines reach an incident's sentence: no control character, no separator of fields, not too long."""
    return clean(text).replace(";", ",")[:MOST_CHARACTERS]
