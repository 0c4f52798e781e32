"""What the far end or a program of ours prints, made fit to be shown: harmless, and without secrets.

A proxy, a login shell or a traceback may print the very options and headers that it was called with.
"""

from __future__ import annotations

from gpuwatch.agent.base.secret_masking import masked
from gpuwatch.agent.base.secret_phrases import masked_lines
from gpuwatch.plain import plain, plain_lines

MAX_LINES = 10_000


def shown_lines(text: str, most: int) -> list[str]:
    """The last `most` lines that are not blank, harmless and with their secrets masked."""
    lines = masked_lines(plain_lines(text, MAX_LINES))
    return [masked(line) for line in lines[-most:]]


def shown_text(text: str) -> str:
    """A sentence, harmless and with its secrets masked."""
    return masked(plain(text))


def whole_lines(tail: bytes, limit: int) -> str:
    """The last bytes of a stream, of which `limit` were kept, without what may be the rest of a cut word."""
    if len(tail) >= limit:
        line, word = tail.find(b"\n"), tail.find(b" ")
        tail = tail[max(line, 0) :] if line >= 0 else tail[max(word, 0) :] if word >= 0 else b""
    return tail.decode("utf-8", "replace")
