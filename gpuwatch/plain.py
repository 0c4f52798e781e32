"""Sanitizes remote text, so that nothing that a node sends can control the user's terminal.

Every string of a frame, of a login shell's output and of an ssh banner is sanitized once, where it is
received.
"""

from __future__ import annotations

import json
import re

_STEERING = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: escapes, OSC, CSI
    "\u00ad\u061c\u180e"  # soft hyphen, Arabic letter mark, Mongolian vowel separator
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidi
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb"  # variation selectors, BOM, annotations
    "\ud800-\udfff"  # half a character: cannot be written to a UTF-8 terminal
    "\U000e0000-\U000e0fff"  # tags
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"  # format characters: of numbers,
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # hieroglyphs, shorthand, music
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0"  # shown as nothing or as a blank
    "]"
)

MAY_STEER = re.compile(
    rb"\\[bfnrtu]|\x7f|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]"
    rb"|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb]|\xed[\xa0-\xbf]|\xf3\xa0"
    rb"|\xd8[\x80-\x85]|\xdb\x9d|\xdc\x8f|\xe0\xa2[\x90\x91]|\xe0\xa3\xa2|\xf0\x91(?:\x82\xbd|\x83\x8d)"
    rb"|\xf0\x93\x90[\xb0-\xbf]|\xf0\x9b\xb2[\xa0-\xa3]|\xf0\x9d\x85[\xb3-\xba]|\xcd\x8f|\xe1\x85[\x9f\xa0]"
    rb"|\xe1\x9e[\xb4\xb5]|\xe1\xa0[\x8b-\x8f]|\xe2\xa0\x80|\xe3\x85\xa4|\xef\xbe\xa0"
)
"""Matches JSON text (UTF-8) that may contain a character to be replaced; most frames contain none."""


def may_steer(text: bytes) -> bool:
    """Return True if JSON text (UTF-8) may contain a character that `plain` replaces.

    Text in ASCII without an escape, as of most frames, is recognized at a twentieth of the pattern's cost.
    """
    if text.isascii() and b"\\" not in text and b"\x7f" not in text:
        return False
    return MAY_STEER.search(text) is not None


def _picture(match: re.Match[str]) -> str:
    char = match.group()
    if char in "\t\n\r\u2800":  # the last one is an empty cell of a Braille chart
        return " "
    code = ord(char)
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """Return the text with every control, bidi and zero-width character replaced by a visible, inert one.

    Tabs and line ends become spaces; ESC becomes its picture (U+241B), so that an attack is visible.
    """
    return _STEERING.sub(_picture, text)


def plain_text(text: str) -> str:
    """Return the text as `plain` does, but with line feeds unchanged."""
    return "\n".join(plain(line) for line in text.split("\n"))


def plain_json(text: str) -> str:
    """Return JSON text with control and invisible characters escaped; it decodes to the same document."""
    return _STEERING.sub(lambda found: "\n" if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def plain_lines(text: str, most: int) -> list[str]:
    """Return the last `most` lines that are not blank, stripped and sanitized."""
    lines = [plain(line).strip() for line in re.split(r"[\r\n]+", text)]
    return [line for line in lines if line][-most:]
