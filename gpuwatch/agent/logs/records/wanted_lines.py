"""Chooses the lines that are searched of a record with many."""

from bisect import bisect_right
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_LINES = 200
"""Lines of one record, of which all are searched; of further ones those in which a phrase is."""
MAX_INSIDE = 1000
"""Lines that are searched between the first and the last ones of a record."""
LINES_ABOVE = 8
"""Lines above one with a phrase that are read with it: conditions of its rules may need them."""


class WantedLines(object):
    """The lines of a record to search; `places` returns the byte offsets in a text that are looked for."""

    def __init__(self, places: "Callable[[bytes], list[int]]") -> None:
        self.places = places
        self.left_out = 0
        """Lines that are not searched, although places are in them or near them."""

    def of(self, lines: "list[str]") -> "list[str]":
        """Return the lines in which one of the places is, each with up to `LINES_ABOVE` lines above it.

        At most `MAX_INSIDE`; the others are counted in `left_out`.
        """
        data = [line.encode("utf-8", "replace") for line in lines]
        starts = list(accumulate(len(each) + 1 for each in data))
        wanted: set[int] = set()
        for place in self.places(b"\n".join(data)):
            number = bisect_right(starts, place)
            wanted.update(range(max(0, number - LINES_ABOVE), number + 1))
        self.left_out += max(0, len(wanted) - MAX_INSIDE)
        return [lines[number] for number in sorted(wanted)[:MAX_INSIDE]]


def may_have_more(data: bytes) -> bool:
    """Return True if a record may have more than `MAX_LINES` lines; False: it has not.

    Each line costs an escape, or two quotes of a list of lines, or two commas of a list of bytes.
    """
    return b"{" in data and data.count(b"\\") + (data.count(b'"') + data.count(b",")) // 2 > MAX_LINES
