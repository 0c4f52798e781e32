"""Packed logs: they are not followed, as nothing that is appended to them is text."""

_HEADS = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
)

_INSIDE = _HEADS + ((b"1AY&SY", "bzip2"),)


def packing_of(head):
    # type: (bytes) -> str | None
    """What a file that begins with these bytes (8 or more, where it has them) is packed with, if anything."""
    if head.startswith(b"BZh") and head[4:8] == b"1AY&":
        return "bzip2"
    return next((name for magic, name in _HEADS if head.startswith(magic)), None)


def packed_inside(text):
    # type: (bytes) -> str | None
    """What stands packed in the midst of text, as where a rotated file was appended; None: nothing."""
    return next((name for magic, name in _INSIDE if magic in text), None)
