"""Decompresses parts of a recording or relay stream, with the dictionaries that they name."""

from __future__ import annotations

from collections.abc import Callable

import zstandard

MAX_BLOCK_BYTES = 64 << 20
"""A block that claims to expand to more is damaged."""


class Inflater:
    """Counts parts that it cannot decompress, and continues."""

    def __init__(self, dictionary: Callable[[int], bytes | None]) -> None:
        """`dictionary` finds one by id; None: unknown."""
        self._dictionary = dictionary
        self._known: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}
        """By dictionary id; 0: without one."""
        self.damaged = 0
        """Number of parts that could not be decompressed."""

    def inflated(self, data: bytes) -> bytes:
        """The decompressed bytes; empty if damaged."""
        try:
            frame = zstandard.get_frame_parameters(data)
            if 0 <= frame.content_size <= MAX_BLOCK_BYTES:
                return self._with(frame.dict_id).decompress(data)
        except (zstandard.ZstdError, LookupError):
            pass  # counted below
        self.damaged += 1
        return b""

    def _with(self, number: int) -> zstandard.ZstdDecompressor:
        if number not in self._known:
            content = self._dictionary(number)
            if content is None:
                raise LookupError(number)
            known = zstandard.ZstdCompressionDict(content)
            self._known[number] = zstandard.ZstdDecompressor(dict_data=known)
        return self._known[number]
