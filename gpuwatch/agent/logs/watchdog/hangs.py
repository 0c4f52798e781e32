"""What log readers hung on, and what the next one leaves out: a rule in one file, or a stretch of it.

A stretch is [inode, begin, end] of a file. The first hang in it suspends the rule that was being searched
for, in this file alone; the next reader goes through the stretch line by line, and a line that it hangs on is
skipped. No second rule is suspended for one stretch.
"""

from ..ipc import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

    from ..ipc.activity_marker import Activity  # noqa: F401 - used in type comments

MAX_SKIPPED = 16
"""A file with more lines that scanning does not end on is left alone."""


class Hangs(object):
    """Kept by the agent from one reader to the next."""

    def __init__(self):
        # type: () -> None
        self.suspended = {}  # type: dict[str, dict[str, str]]
        """Path -> rule -> why."""
        self.careful = {}  # type: dict[str, list[int]]
        """Path -> the stretch that is scanned line by line."""
        self.skipped = {}  # type: dict[str, list[list[int]]]
        """Path -> stretches that are not scanned."""
        self.blocked = {}  # type: dict[str, str]
        """Path -> why it must not be touched."""

    def scanning(self, activity):
        # type: (Activity) -> dict[str, Any]
        """A reader hung while it scanned.

        What is reported, by the key under which it replaces what was reported.
        """
        path, stretch = activity.path, list(activity.stretch)
        known = self.careful.get(path)
        if known is None or not overlap(known, stretch):
            self.careful[path] = stretch
            if not activity.rule:
                return {}
            self.suspended.setdefault(path, {})[activity.rule] = messages.ENDLESS_RULE
            why = "{} of {}".format(messages.ENDLESS_RULE, path)
            return {"rule {} {}".format(activity.rule, path): messages.slow(activity.rule, why)}
        skipped = self.skipped.setdefault(path, [])
        skipped.append(stretch)
        if len(skipped) > MAX_SKIPPED:
            return self.touching(path, messages.ENDLESS)
        return {"stretch " + path: messages.stretches_skipped(path, skipped)}

    def touching(self, path, why):
        # type: (str, str) -> dict[str, Any]
        """A reader hung on a file itself, or there is no end of stretches to skip; the same."""
        self.blocked[path] = why
        return {"file " + path: messages.stuck(path, why)}


def overlap(one, other):
    # type: (list[int], list[int]) -> bool
    """Whether two stretches of a file have a byte in common."""
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
