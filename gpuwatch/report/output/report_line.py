"""A line of words with its gravity: what text reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NAMED_PLACES = 4
"""Places that a sentence names; the rest are counted."""


@dataclass(frozen=True)
class ReportLine:
    """A line of words and how grave it is: ok, info, warning, critical, or plain."""

    text: str
    style: str = "plain"
    hang: int = 0
    """Columns by which a terminal indents what does not fit into its width."""


def names(places: Sequence[str]) -> str:
    """`gpu-001 GPU 3, gpu-002 GPU 5 and 13 more`."""
    more = len(places) - NAMED_PLACES
    return ", ".join(places[:NAMED_PLACES]) + (f" and {more} more" if more > 0 else "")
