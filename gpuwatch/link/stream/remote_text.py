"""Prepares output of nodes and programs for display: sanitized, secrets masked.

A proxy, login shell or traceback may print the options and headers that it was called with.
"""

from __future__ import annotations

from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.agent.masking.secret_phrases import masked_lines
from gpuwatch.plain import plain, plain_lines

MAX_LINES = 10_000


def shown_lines(text: str, most: int) -> list[str]:
    """Return the last `most` non-blank lines, sanitized and masked."""
    lines = masked_lines(plain_lines(text, MAX_LINES))
    return [masked(line) for line in lines[-most:]]


def shown_text(text: str) -> str:
    """Return a text in one line, sanitized and masked."""
    return masked(plain(text))


def whole_lines(tail: bytes, limit: int) -> str:
    """Return the last bytes of a stream as text, without a first line or word that was cut.

    `limit`: the number of bytes kept; if `tail` is shorter, nothing was cut.
    """
    if len(tail) >= limit:
        line, word = tail.find(b"\n"), tail.find(b" ")
        tail = tail[max(line, 0) :] if line >= 0 else tail[max(word, 0) :] if word >= 0 else b""
    return tail.decode("utf-8", "replace")
