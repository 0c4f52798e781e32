"""Trains a zstd dictionary on the first blocks of a session."""

from __future__ import annotations

from collections.abc import Sequence

import zstandard
from msgspec import Struct

SIZE_BYTES = 16 << 10
TRAINING_BLOCKS = 20
MIN_LINES = 60
MAX_BLOCK_BYTES = 64 << 10
"""Larger blocks repeat enough internally: a dictionary saves 3 % there, and over half in smaller ones."""


class Trained(Struct, frozen=True):
    """The trained dictionary; None if the lines had too little in common."""

    dictionary: zstandard.ZstdCompressionDict | None = None

    @property
    def data(self) -> bytes:
        """Return the dictionary's bytes; empty if there is none."""
        return b"" if self.dictionary is None else self.dictionary.as_bytes()


class DictionaryTrainer:
    """Collects the lines of the first blocks; `take` trains the dictionary once there are enough."""

    def __init__(self) -> None:
        self._lines: list[bytes | bytearray | memoryview[int]] = []
        self._blocks = 0

    def take(self, lines: Sequence[bytes]) -> Trained | None:
        """Add the lines of a block; return the dictionary after `TRAINING_BLOCKS` blocks, None before.

        It is empty if there are too few lines, or training fails.
        """
        self._blocks += 1
        if sum(map(len, lines)) <= MAX_BLOCK_BYTES:  # the first one holds a backlog
            self._lines.extend(lines)
        if self._blocks < TRAINING_BLOCKS:
            return None
        if len(self._lines) < MIN_LINES:
            return Trained()
        try:
            return Trained(zstandard.train_dictionary(SIZE_BYTES, self._lines))
        except zstandard.ZstdError:  # the lines have too little in common
            return Trained()
