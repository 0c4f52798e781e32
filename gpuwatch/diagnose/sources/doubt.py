"""What speaks against a log line: a sentence, and whether it is a contradiction."""

from __future__ import annotations

from typing import NamedTuple


class Doubt(NamedTuple):
    """What speaks against a line."""

    text: str
    """Empty: nothing."""
    refuted: bool = False
    """The line leads no incident while anything else does, and never with the name of the other node."""


UNDISPUTED = Doubt("")
