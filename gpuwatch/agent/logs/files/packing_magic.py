"""What a file is packed with, by its bytes. Packed logs are not followed: what is appended is no text."""

import re

_STARTS = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"BZh[1-9](?:1AY&|\x17rE8)"), "bzip2"),
    (re.compile(rb"\x04\x22\x4d\x18"), "lz4"),
    (re.compile(rb"PK\x03\x04"), "zip"),
)
"""What pzstd writes begins with a skippable frame; an empty bzip2 file has no block."""
_INSIDE = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
    (b"1AY&SY", "bzip2"),
)


def packing_by_magic(head):
    # type: (bytes) -> str | None
    """What a file that begins with these bytes (8 or more, where it has them) is packed with, if anything."""
    return next((name for start, name in _STARTS if start.match(head)), None)


def packed_inside(text):
    # type: (bytes) -> str | None
    """What stands packed in the midst of text, as where a rotated file was appended; None: nothing."""
    return next((name for magic, name in _INSIDE if magic in text), None)
