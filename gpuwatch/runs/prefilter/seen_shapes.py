"""Finds texts in a log without searching all of it: lines whose shape is known to have none are skipped.

A log repeats the same lines with other numbers, so each shape is examined once (see
`agent.logs.matching.prefilter`). Of new shapes only the distinct words are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

MAX_BYTES = 4 << 20
"""Most bytes of shapes that are stored."""
_WORD = re.compile(rb"[A-Za-z]+")
_LETTERS = bytes(char if chr(char).isalpha() and char < 128 else 32 for char in range(256))


class Shapes(Protocol):
    """Gives shapes of lines."""

    def distinct(self, data: bytes) -> AbstractSet[bytes]:
        """Return the different shapes of the lines."""
        ...


class SeenShapes:
    """The shapes of lines that contain none of some texts; shared by all files of a worker."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        """Create it for the `texts` to find: each contains a word, but no digit or control character."""
        self._texts = [(max(_WORD.findall(text), key=len), text) for text in texts]
        self._without: set[bytes] = set()
        self._bytes = 0

    def hold(self, data: bytes, shapes: Shapes) -> bool:
        """Return True if one of the texts occurs in the data.

        `shapes`: the prefilter that has the data's shapes.
        """
        new = shapes.distinct(data) - self._without
        if not new:
            return False
        together = b"\n".join(new)
        words = b" ".join(set(together.translate(_LETTERS).split()))
        near = [text for word, text in self._texts if word in words]
        if any(text in data for text in near):
            return True
        if near:
            new = {shape for shape in new if not any(text in shape for text in near)}
        self._bytes += len(together)
        if self._bytes > MAX_BYTES:
            self._without.clear()
            self._bytes = len(together)
        self._without |= new
        return False
