"""Tags of writers that the scan of a folder has learned from all its lines. An agent knows none.

A tag is a pattern, anchored at the begin of a line, whose groups together name the process.
"""

import re
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HEAD_CHARS = 4000
"""Characters of a line in which a tag is searched."""
TAGS: "list[tuple[re.Pattern[str], dict[str, int], bool]]" = []
"""The tags of the folder that this process scans: pattern, text in the tag -> rank, is at the head."""
CLEARED: "list[Callable[[], None]]" = []
"""Functions that empty the caches of what depends on the tags; called when the tags change."""


@contextmanager
def learned(tags: "Sequence[tuple[str, dict[str, int], bool]]") -> "Iterator[None]":
    """Read lines with these tags inside the `with` block.

    `tags`: pattern, text in the tag -> rank, whether the message begins after it.
    """
    before = TAGS[:]
    _set([(re.compile(pattern), ranks, head) for pattern, ranks, head in tags])
    try:
        yield
    finally:
        _set(before)


def _set(tags: "list[tuple[re.Pattern[str], dict[str, int], bool]]") -> None:
    if tags != TAGS:
        TAGS[:] = tags
        for clear in CLEARED:
            clear()


def learned_writer(text: str) -> "tuple[int, int] | None":
    """Return the rank that the tag of a line names, and where the tag ends (0: in the message), or None."""
    for pattern, ranks, head in TAGS:
        found = pattern.match(text, 0, HEAD_CHARS)
        rank = None if found is None else ranks.get("/".join(found.groups()))
        if found is not None and rank is not None:
            return rank, found.end() if head else 0
    return None
