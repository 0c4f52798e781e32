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
    "]"
)

MAY_STEER = re.compile(
    rb"\\[bfnrtu]|\x7f|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]"
    rb"|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb]|\xed[\xa0-\xbf]|\xf3\xa0"
)
"""Matches JSON text (UTF-8) that may contain a character to be replaced; most frames contain none."""


def _picture(match: re.Match[str]) -> str:
    char = match.group()
    if char in "\t\n\r":
        return " "
    code = ord(char)
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """Replace every control, bidi and zero-width character in the text with a visible, inert one.

    Tabs and line ends become spaces; ESC becomes its picture (U+241B), so that an attack is visible.
    """
    return _STEERING.sub(_picture, text)


def plain_text(text: str) -> str:
    """Like `plain`, but keeps line feeds: the lines of a command's output stay lines."""
    return "\n".join(plain(line) for line in text.split("\n"))


def plain_json(text: str) -> str:
    """Return JSON text with these characters escaped; safe to print, it decodes to the same document."""
    return _STEERING.sub(lambda found: "\n" if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def plain_lines(text: str, most: int) -> list[str]:
    """Return the last `most` lines that are not blank, stripped and sanitized."""
    lines = [plain(line).strip() for line in re.split(r"[\r\n]+", text)]
    return [line for line in lines if line][-most:]
