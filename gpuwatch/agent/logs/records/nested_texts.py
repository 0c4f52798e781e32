"""The sentences inside of a JSON value: in objects, lists, lists of bytes and strings that are JSON."""

import json
from itertools import islice

from .byte_lists import text_of_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

MAX_DEPTH = 8
"""Depth to which values are looked at."""
MAX_TEXTS = 100
"""Most texts of a value."""
MAX_VALUES = 20000
"""Most values that are looked at."""
MIN_BYTES = 8
"""Numbers from which on a list may be a text's bytes."""


def nested_texts(value: "Any") -> "list[str]":
    """Return the sentences in a value in their order, at most `MAX_TEXTS`.

    A text without a blank is a name or an id.
    """
    found = (each for each in _texts(value, MAX_DEPTH, [MAX_VALUES]) if " " in each.strip())
    return list(islice(found, MAX_TEXTS))


def _texts(value: "Any", depth: int, left: "list[int]") -> "Iterator[str]":
    left[0] -= 1
    if left[0] < 0 or depth < 0:
        return
    if isinstance(value, str):
        inner = _loaded(value)
        if inner is not None:
            for text in _texts(inner, depth - 1, left):
                yield text
        elif value.strip():
            yield value
        return
    if isinstance(value, list) and len(value) >= MIN_BYTES and isinstance(value[0], int):
        text = text_of_bytes(value) or ""
        if "".join(text.split()).isprintable() and text.strip():
            yield text
        return
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inside:
        for text in _texts(each, depth - 1, left):
            yield text


def _loaded(text: str) -> "Any":
    """Return the object or list of a string that is JSON; None: it is none."""
    text = text.strip()
    if text[:1] + text[-1:] not in ("{}", "[]"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
