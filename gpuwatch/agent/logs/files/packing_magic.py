"""Detects compressed files by their bytes. They are not followed, since what is appended is no text."""

import re

_STARTS = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"BZh[1-9](?:1AY&|\x17rE8)"), "bzip2"),
    (re.compile(rb"\x04\x22\x4d\x18"), "lz4"),
    (re.compile(rb"PK\x03\x04"), "zip"),
)
"""pzstd output begins with a skippable frame; an empty bzip2 file has no block."""
_INSIDE = (
    (b"\x1f", b"\x1f\x8b\x08", "gzip"),
    (b"\xfd", b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd", b"\xfd7zXZ\0", "xz"),
    (b"\x04", b"\x04\x22\x4d\x18", "lz4"),
    (b"\x04", b"PK\x03\x04", "zip"),
    (b"&", b"1AY&SY", "bzip2"),
)
"""A byte that is rare in text and found thirty times as fast as the magic, the magic, and its name."""


def packing_by_magic(head: bytes) -> "str | None":
    """Return the compression of a file that begins with these bytes (8 or more if it has them), or None."""
    return next((name for start, name in _STARTS if start.match(head)), None)


def packed_inside(text: bytes) -> "str | None":
    """Return the compression of data within text, such as an appended rotated file; None: none."""
    return next((name for rare, magic, name in _INSIDE if rare in text and magic in text), None)
