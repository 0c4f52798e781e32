"""Records what log readers hung on, and what the next one leaves out: a rule in a file, or a range of it.

A range is [inode, begin, end] of a file. The first hang in it suspends the current rule in this file only;
the next reader scans the range line by line, and a line on which it hangs is skipped. No second rule is
suspended for one range.
"""

from ..ipc import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..ipc.activity_marker import Activity

MAX_SKIPPED = 16
"""Skipped lines of a file after which the file is no longer scanned."""


class Hangs(object):
    """The rules, ranges and files on which log readers hung; the agent passes them to the next reader."""

    def __init__(self) -> None:
        self.suspended: dict[str, dict[str, str]] = {}
        """Path -> rule -> reason."""
        self.careful: dict[str, list[int]] = {}
        """Path -> range that is scanned line by line."""
        self.skipped: dict[str, list[list[int]]] = {}
        """Path -> ranges that are not scanned."""
        self.blocked: dict[str, str] = {}
        """Path -> why it must not be accessed."""

    def scanning(self, activity: "Activity") -> "dict[str, Any]":
        """Record that a reader hung while it scanned a range of a file.

        Return notices by key; a notice replaces the one with the same key.
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

    def touching(self, path: str, why: str) -> "dict[str, Any]":
        """Record that a reader hung on access to a file, or that too many ranges of it were skipped.

        Return notices by key, as `scanning`.
        """
        self.blocked[path] = why
        return {"file " + path: messages.stuck(path, why)}


def overlap(one: "list[int]", other: "list[int]") -> bool:
    """Return True if two ranges of a file overlap."""
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
