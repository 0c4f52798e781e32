"""Parses the lists that `kubectl get -o json` prints.

Labels and messages are untrusted: whoever creates a pod can write them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpuwatch.wire.codec import decode_strictly

MAX_COUNT = 1_000_000_000
MAX_TEXT_CHARS = 253
"""The length of the longest name; a label is at most 63 (RFC 1123)."""


class NoListError(ValueError):
    """Raised if a text is not a JSON list of Kubernetes objects; the message is sanitized."""


class _ObjectList(msgspec.Struct):
    items: list[dict[str, Any]]


_decoder = msgspec.json.Decoder(_ObjectList)


def items_of(text: str) -> list[dict[str, Any]]:
    """Return the `items` of a Kubernetes list in JSON, with all texts sanitized.

    Raises:
        NoListError: The text is not such a list.
    """
    return decode_strictly(text.encode("utf-8", "replace"), _decoder, NoListError).items


def short(value: object) -> str:
    """Return a text or whole number as text, cut to `MAX_TEXT_CHARS`; "" for any other value."""
    return str(value)[:MAX_TEXT_CHARS] if isinstance(value, (str, int)) else ""


def count(value: object) -> int:
    """Return the value if it is a whole number from 0 to `MAX_COUNT`, else 0."""
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0
