"""A line of a text report: text and severity."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

NAMED_PLACES = 4
"""Places that a sentence names; the rest are counted."""


class ReportLine(Struct, frozen=True):
    """A line of text with a severity: ok, info, warning, critical, or plain."""

    text: str
    style: str = "plain"
    hang: int = 0
    """Columns by which a terminal indents continuation lines."""


def names(places: Sequence[str]) -> str:
    """Return the first `NAMED_PLACES` names: `gpu-001 GPU 3, gpu-002 GPU 5 and 13 more`."""
    more = len(places) - NAMED_PLACES
    return ", ".join(places[:NAMED_PLACES]) + (f" and {more} more" if more > 0 else "")
