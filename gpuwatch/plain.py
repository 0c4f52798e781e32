"""Remote text made harmless: nothing that a node states may steer the terminal it is shown on.

Every string of a frame, of a login shell's noise and of an ssh banner passes here once, at the edge.
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
"""Finds JSON text (UTF-8) that could hold a character to be replaced; most frames hold none."""


def _picture(match: re.Match[str]) -> str:
    char = match.group()
    if char in "\t\n\r":
        return " "
    code = ord(char)
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """The text with every control, bidi and zero-width character replaced by a visible, inert one.

    Tabs and line ends become spaces; ESC becomes its picture (U+241B), so that an attack can be seen.
    """
    return _STEERING.sub(_picture, text)


def plain_text(text: str) -> str:
    """As `plain`, with the line feeds kept: of what a command prints a line is a line, whatever is in it."""
    return "\n".join(plain(line) for line in text.split("\n"))


def plain_json(text: str) -> str:
    """JSON text in which these characters are escapes: harmless to print, and the same document."""
    return _STEERING.sub(lambda found: "\n" if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def plain_lines(text: str, most: int) -> list[str]:
    """The last `most` lines that are not blank, each made harmless."""
    lines = [plain(line).strip() for line in re.split(r"[\r\n]+", text)]
    return [line for line in lines if line][-most:]
