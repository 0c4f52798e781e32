"""Parses the lists that `kubectl get -o json` prints.

Labels and messages are untrusted, as any creator of pods writes them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpuwatch.wire.codec import decode_strictly

MAX_COUNT = 1_000_000_000
MAX_TEXT_CHARS = 253
"""The length of the longest name; a label is at most 63 (RFC 1123)."""


class NoListError(ValueError):
    """Raised if the text is no list of objects; the message is sanitized."""


class _ObjectList(msgspec.Struct):
    items: list[dict[str, Any]]


_decoder = msgspec.json.Decoder(_ObjectList)


def items_of(text: str) -> list[dict[str, Any]]:
    """The objects of a list, with all texts sanitized.

    Raises:
        NoListError: it is none.
    """
    return decode_strictly(text.encode("utf-8", "replace"), _decoder, NoListError).items


def short(value: object) -> str:
    """A value as a text of at most `MAX_TEXT_CHARS`; "" if it is neither text nor number."""
    return str(value)[:MAX_TEXT_CHARS] if isinstance(value, (str, int)) else ""


def count(value: object) -> int:
    """A count; 0 if the value is not one."""
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0
