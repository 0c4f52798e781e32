"""Inflates the compressed parts of a recording or relay, with the dictionaries that they name."""

from __future__ import annotations

from collections.abc import Callable

import zstandard

MAX_BLOCK_BYTES = 64 << 20
"""A block that claims to inflate to more is damaged."""


class Inflater:
    """Counts what it cannot inflate, and goes on."""

    def __init__(self, dictionary: Callable[[int], bytes | None]) -> None:
        """`dictionary` finds one by its id; None: there is none of that id."""
        self._dictionary = dictionary
        self._known: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}
        """By the id of the dictionary; 0: without one."""
        self.damaged = 0
        """Parts that could not be inflated."""

    def inflated(self, data: bytes) -> bytes:
        """The bytes that were compressed; none of what is damaged."""
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
