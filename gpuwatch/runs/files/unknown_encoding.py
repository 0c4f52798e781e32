"""Text in an encoding that is not read, as EBCDIC: no rule finds a word in it."""

from __future__ import annotations

ASCII_TEXT = bytes(range(0x20, 0x7F)) + b"\t\n\r\f\b\x1b\x07"
SAMPLE_BYTES = 4_096
LEAST_BYTES = 64
"""Fewer bytes may be the debris of a broken line."""
MOST_FOREIGN = 0.5
"""Share of bytes that are neither ASCII nor UTF-8; a log in KOI8-R or GBK is mostly numbers and names."""


def is_unknown_encoding(data: bytes) -> bool:
    """Whether these bytes of a log begin or end with text that is not read; NUL bytes do not count."""
    return _is_unknown(data[:SAMPLE_BYTES]) or _is_unknown(data[-SAMPLE_BYTES:])


def _is_unknown(sample: bytes) -> bool:
    sample = sample.replace(b"\0", b"")
    if len(sample) < LEAST_BYTES:
        return False
    foreign = sample.translate(None, ASCII_TEXT)
    if len(foreign) <= MOST_FOREIGN * len(sample):
        return False
    decoded = len(sample.decode("utf-8", "ignore").encode())
    return len(sample) - decoded > MOST_FOREIGN * len(sample)
