"""A line of words with its gravity: what text reports are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A line of words and how grave it is: ok, info, warning, critical, or plain."""

    text: str
    style: str = "plain"
    hang: int = 0
    """Columns by which a terminal indents what does not fit into its width."""
