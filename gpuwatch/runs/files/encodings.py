"""Converts UTF-16 logs, as Windows tools write them, to UTF-8; detects unsupported encodings."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import chain

from gpuwatch.agent.patterns.module_pattern import pattern_of

MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""Byte order mark -> encoding."""
HEAD_BYTES = 4096
PIECE_BYTES = 1 << 20
UNDECIDED_BYTES = 256
"""Bytes that are held back at the end of a piece: more than `PLAIN` needs to match."""
MAX_HELD_BYTES = 1 << 16
MAX_BYTES_WITHOUT_NUL = 1024
"""Longest run of UTF-16 bytes without a space, digit or line end."""
_MULTIBYTE_UTF8 = rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
_ASCII = rb"[\t\n\r\x1b\x20-\x7e]"
PLAIN = rb"(?=(?:%s|%s){24})(?:%s+|%s)+" % (_ASCII, _MULTIBYTE_UTF8, _ASCII, _MULTIBYTE_UTF8)
"""Matches plain ASCII or UTF-8.

UTF-16 has NUL bytes in Latin text and at every line end; 12 other characters match by chance with a
probability below 1e-6.
"""
STRETCH = {
    "utf-16-le": pattern_of(PLAIN + rb"(?!\0)"),  # the byte before NUL is a character of UTF-16
    "utf-16-be": pattern_of(rb"(?<!\0)" + PLAIN),
}
ASCII_TEXT = bytes(range(0x20, 0x7F)) + b"\t\n\r\f\b\x1b\x07"
SAMPLE_BYTES = 4_096
MIN_BYTES = 64
"""Shortest run of bytes that is examined; shorter ones may be fragments of a broken line."""
MAX_FOREIGN_SHARE = 0.5
"""Share of bytes that are neither ASCII nor UTF-8 above which an encoding is unsupported.

A log in KOI8-R or GBK is mostly numbers and names.
"""


def encoding_of(head: bytes) -> str | None:
    """Return `utf-16-le` or `utf-16-be` if the bytes begin with that byte order mark and continue in it.

    Else None.
    """
    encoding = MARKS.get(head[:2])
    if encoding is None or head[2:4] == b"\0\0":  # the latter is UTF-32
        return None
    text = head[2:HEAD_BYTES]
    return encoding if not text or (b"\0" in text and not STRETCH[encoding].match(text)) else None


def as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces as UTF-8 if the file begins as UTF-16, else unchanged."""
    first = next(pieces, b"")
    encoding = encoding_of(first)
    if encoding is None:
        yield first
        yield from pieces
        return
    decoder = Utf16(encoding)
    for piece in chain([first[2:]], pieces):
        for at in range(0, len(piece), PIECE_BYTES):
            yield decoder.feed(piece[at : at + PIECE_BYTES])
    yield decoder.end()


class Utf16:
    """Converts UTF-16 to UTF-8.

    The input may contain stretches of plain text, as `>>` after PowerShell output does.
    """

    def __init__(self, encoding: str) -> None:
        self._stretch = STRETCH[encoding]
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._held = b""
        self._wide = False
        """True if the held-back bytes continue in UTF-16."""

    def feed(self, data: bytes) -> bytes:
        """Decode as much as possible of the data so far; return UTF-8."""
        data = self._held + data
        self._held = b""
        parts, at = self._decided(data)
        rest = data[at:]
        if rest and not self._held:
            keep = min(len(rest), UNDECIDED_BYTES)
            keep += (len(rest) - keep) % 2
            self._held = rest[len(rest) - keep :]
            parts.append(self._text(rest[: len(rest) - keep]))
        return b"".join(parts)

    def end(self) -> bytes:
        """Decode the rest; return UTF-8."""
        data, self._held = self._held, b""
        parts, at = self._decided(data, final=True)
        return b"".join([*parts, self._text(data[at:], final=True)])

    def _decided(self, data: bytes, *, final: bool = False) -> tuple[list[bytes], int]:
        """Decode up to the end of the last plain stretch.

        Return the decoded texts, and the offset of that end.
        """
        parts = []
        at = 0
        for plain in self._stretch.finditer(data):
            start, end = plain.span()
            parts.append(self._text(data[at:start], final=True))
            if not final and end == len(data):
                start = start if end - start < MAX_HELD_BYTES else end - UNDECIDED_BYTES
                self._held = data[start:]
                end = start
            parts.append(data[plain.start() : end])
            self._wide = False
            at = end
        return parts, at

    def _text(self, data: bytes, *, final: bool = False) -> bytes:
        """Return bytes between plain stretches as UTF-8: decoded from UTF-16 if they contain NULs.

        `final`: they are the last bytes before a stretch or the end of the file.
        """
        self._wide = b"\0" in data or (self._wide and len(data) < MAX_BYTES_WITHOUT_NUL)
        return self._decoder.decode(data, final).encode("utf-8", "replace") if self._wide else data


def is_unknown_encoding(data: bytes) -> bool:
    """Return True if the bytes begin or end in an unsupported encoding; NUL bytes do not count."""
    return _is_unknown(data[:SAMPLE_BYTES]) or _is_unknown(data[-SAMPLE_BYTES:])


def _is_unknown(sample: bytes) -> bool:
    sample = sample.replace(b"\0", b"")
    if len(sample) < MIN_BYTES:
        return False
    foreign = sample.translate(None, ASCII_TEXT)
    if len(foreign) <= MAX_FOREIGN_SHARE * len(sample):
        return False
    decoded = len(sample.decode("utf-8", "ignore").encode())
    return len(sample) - decoded > MAX_FOREIGN_SHARE * len(sample)
