"""Builds lines in the form sent to the cockpit: `wire.LogLine` as a list."""

import time

from .levels import level
from .normalise import messages
from .timestamps import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def row(
    offset: int,
    end: int,
    text: str,
    arrived: "float | None",
    rule: "str | None" = None,
    until: "float | None" = None,
) -> "list[Any]":
    """Return a line as the list form of `wire.LogLine`, with its own time, its prefix's rank and its level.

    `arrived` is None for a line from before the agent started; a time without a year is then read as one at
    most a day after `until` (unix seconds; None: now).
    """
    stated = messages(text.encode("utf-8", "replace"))[0][-1]
    when = (time.time() if until is None else until) if arrived is None else arrived
    own = level(stated[0], text, stated[1].level)
    return [offset, end, text, time_of(text, when), arrived, stated[1].rank, own, rule]
