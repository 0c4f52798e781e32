"""The lists that `kubectl get -o json` prints. Whoever may make a pod writes labels and messages in them."""

from __future__ import annotations

from typing import Any

import msgspec

from gpuwatch.wire.codec import decode_strictly

MAX_COUNT = 1_000_000_000
MAX_TEXT_CHARS = 253
"""As the longest name; a label is at most 63 (RFC 1123)."""


class NoListError(ValueError):
    """It is no list of objects; the text is harmless."""


class _ObjectList(msgspec.Struct):
    items: list[dict[str, Any]]


_decoder = msgspec.json.Decoder(_ObjectList)


def items_of(text: str) -> list[dict[str, Any]]:
    """The objects of a list, every text in them made harmless.

    Raises:
        NoListError: it is none.
    """
    return decode_strictly(text.encode("utf-8", "replace"), _decoder, NoListError).items


def short(value: object) -> str:
    """A value as a text of at most `MAX_TEXT_CHARS`; empty for one that is neither text nor number."""
    return str(value)[:MAX_TEXT_CHARS] if isinstance(value, (str, int)) else ""


def count(value: object) -> int:
    """A number of things; 0 for what is none."""
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0
