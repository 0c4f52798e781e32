"""Reads journald's form of a message with an unprintable byte: a list of its bytes."""

import json

from ...patterns.module_pattern import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

_BYTES = pattern_of(rb'"MESSAGE"\s?:\s?\[(\d{1,3}(?:,\s?\d{1,3})*)(?:(\])|,?\s?\Z)')
"""journald's form of a message with an unprintable byte: a list of its bytes, which the end may cut."""
_BYTES_BEGIN = pattern_of(rb'"MESSAGE"\s?:\s?\[')
_FURTHER_BYTES = pattern_of(rb"\s?\d{0,3}(?:,\s?\d{1,3})*(?:(\])|,?\s?\Z)")
"""The rest of such a list."""


def without_byte_lists(data: bytes, inside: bool = False) -> bytes:
    """Return log bytes with journald's lists of a message's bytes replaced by the message as a JSON string.

    A list is about five times as long as its message, so that a line may be cut before its end. A list that
    the end of `data` cuts becomes an open string. `inside`: `data` begins in such a list.
    """
    if inside:
        found = _FURTHER_BYTES.match(data)
        if found is not None:
            data = _string_of(found.group(), found.group(1) is not None) + data[found.end() :]
    return _BYTES.sub(_as_string, data) if b'"MESSAGE"' in data else data


def ends_in_byte_list(data: bytes, inside: bool = False) -> bool:
    """Return True if the end of `data` is inside of a list of bytes; `inside`: so is its beginning."""
    at = data.rfind(b'"MESSAGE"')
    begin = _BYTES_BEGIN.match(data, max(at, 0)) if at >= 0 else None
    if begin is None and not (inside and at < 0):
        return False
    found = _FURTHER_BYTES.match(data, begin.end() if begin is not None else 0)
    return found is not None and found.group(1) is None


def _as_string(found: "re.Match[bytes]") -> bytes:
    return b'"MESSAGE":"' + _string_of(found.group(1), found.group(2) is not None)


def _string_of(numbers: bytes, is_whole: bool) -> bytes:
    """Return the inside of a JSON string for a list of its bytes, with the closing quote if it is whole."""
    codes = [int(each) & 255 for each in numbers.rstrip(b"]").split(b",") if each.strip()]
    text = json.dumps(text_of_bytes(codes), ensure_ascii=False).encode("utf-8", "replace")
    return text[1:] if is_whole else text[1:-1]


def text_of_bytes(codes: "list[Any]") -> "str | None":
    """Return the text of a list of byte values; None if it is not one."""
    if not all(isinstance(code, int) and 0 <= code < 256 for code in codes):
        return None
    return bytes(bytearray(codes)).decode("utf-8", "replace")
